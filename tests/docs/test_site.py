"""The site of the documentation can be built (`make docs` does): what is cheap to check of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
GENERATED = {"reference/api-in-full.md"}


def named(nav: Any) -> Iterator[str]:
    """Pages in the navigation; a folder stands for all in it."""
    for one in nav:
        if isinstance(one, dict):
            (inner,) = one.values()
            yield from named(inner if isinstance(inner, list) else [inner])
        elif one.endswith("/"):
            yield from (str(page.relative_to(DOCS)) for page in (DOCS / one).glob("*.md"))
        else:
            yield one


def test_the_navigation_names_every_page_once() -> None:
    pages = list(named(CONFIG["nav"]))
    here = [page for page in pages if not page.startswith("project/")]
    assert sorted(here) == sorted(
        {*GENERATED, *(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))}
    )


def test_pages_beside_the_folder_are_there_and_taken_in() -> None:
    beside = {page.removeprefix("project/") for page in named(CONFIG["nav"]) if "project/" in page}
    assert all((ROOT / page).exists() for page in beside)
    hook = (ROOT / "scripts" / "docs_site.py").read_text()
    (taken,) = re.findall(r"BESIDE = \((.*?)^\)", hook, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r'"(.+?)"', taken)) == beside


def test_nothing_of_it_comes_from_elsewhere() -> None:
    """The hook looks at every page that was built, too."""
    text = (ROOT / "mkdocs.yml").read_text()
    assert CONFIG["theme"]["font"] is False
    assert "://" not in text and "extra_javascript" not in text
    assert CONFIG["strict"] is True and "search" in CONFIG["plugins"]


def test_every_picture_is_shown_and_described() -> None:
    shown = dict(
        found[::-1]
        for page in DOCS.rglob("*.md")
        for found in re.findall(r"!\[(.*?)\]\(.*?img/(.+?)\)", page.read_text())
    )
    assert {path.name for path in (DOCS / "img").iterdir()} == set(shown)
    assert all(shown.values()), "a picture without words for those who cannot see it"
