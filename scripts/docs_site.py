"""Hooks of mkdocs (see mkdocs.yml): pages that lie beside docs/, links to sources, no remote parts.

A link in a page leads to where it leads in the repository: to another page, or to a file, which
is then part of the site as text.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS = "docs"
# Pages beside docs/, which are in the site under project/.
BESIDE = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("deploy/README.md", "deploy/observe/README.md"),
)
PROJECT = "project"
SOURCES = "sources"  # Files that pages link to, as text.
DECISIONS = "decisions/"
IN_FULL = "reference/api-in-full.md"

FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(\))")
# What a page loads when it is opened; links that a reader may click lead where they want.
REMOTE = re.compile(
    r"<(?:script|img|iframe)\b[^>]*\bsrc=[\"']?(?:https?:)?//|"
    r"<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//|"
    r"url\([\"']?(?:https?:)?//|@import"
)


def on_config(config: Any) -> Any:
    """Every decision is in the navigation, without being listed by hand."""
    for section in config.nav:
        for title, inner in section.items():
            if inner == DECISIONS:
                pages = sorted((ROOT / DOCS / DECISIONS).glob("*.md"))
                section[title] = [f"{DECISIONS}{page.name}" for page in pages]
    return config


def on_files(files: Files, config: Any) -> Files:
    for name in BESIDE:
        files.append(_file(config, f"{PROJECT}/{name}", ROOT / name))
    files.append(File.generated(config, IN_FULL, content=_signatures()))
    wanted = {
        file for page in list(files) if page.is_documentation_page() for file in _linked(page)
    }
    for name in sorted(wanted):
        files.append(_file(config, f"{SOURCES}/{name}.txt", ROOT / name))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    here = page.file.src_uri
    parts = FENCE.split(markdown)
    return "".join(part if n % 2 else _moved(_spaced(part), here) for n, part in enumerate(parts))


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    remote = [page.relative_to(site) for page in pages if REMOTE.search(page.read_text("utf-8"))]
    if remote:
        raise PluginError(f"these load something from elsewhere: {', '.join(map(str, remote))}")
    if not (site / "search" / "search_index.json").exists():
        raise PluginError("the site has no search")


def _file(config: Any, name: str, path: Path) -> File:
    return File.generated(config, name, content=path.read_text("utf-8"))


def _home(src_uri: str) -> str:
    """Where a page of the site lies in the repository."""
    folder, _, beside = src_uri.partition("/")
    return beside if folder == PROJECT else f"{DOCS}/{src_uri}"


def _place(target: str) -> str:
    """Where a file of the repository lies in the site."""
    if target in BESIDE:
        return f"{PROJECT}/{target}"
    if target == f"{DOCS}/{DECISIONS}".rstrip("/"):
        first = min((ROOT / DOCS / DECISIONS).glob("*.md"))
        return f"{DECISIONS}{first.name}"
    if target.startswith(f"{DOCS}/"):
        return target.removeprefix(f"{DOCS}/")
    return f"{SOURCES}/{target}.txt"


def _moved(text: str, here: str) -> str:
    home, folder = PurePosixPath(_home(here)).parent, str(PurePosixPath(here).parent)

    def moved(match: re.Match[str]) -> str:
        target = normpath(str(home / match[2]))
        return f"{match[1]}{relpath(_place(target), folder)}{match[3] or ''}{match[4]}"

    return LINK.sub(moved, text)


def _linked(page: File) -> set[str]:
    """Files that are no pages."""
    text = "".join(FENCE.split(page.content_string)[::2])
    home = PurePosixPath(_home(page.src_uri)).parent
    targets = {normpath(str(home / match[2])) for match in LINK.finditer(text)}
    return {
        one for one in targets if _place(one).startswith(f"{SOURCES}/") and (ROOT / one).is_file()
    }


def _spaced(text: str) -> str:
    """Lists and tables may follow their paragraph at once, as the rest of the world reads them."""
    lines: list[str] = []
    for line in text.split("\n"):
        begins = re.match(r"([-*] |\d+\. |\|)", line)
        if begins and lines and lines[-1] and not re.match(r"\s*([-*] |\d+\. |\||  )", lines[-1]):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _signatures() -> str:
    """A page with what mkdocstrings says about each name of the API."""
    tree = ast.parse((ROOT / "src" / "trawlnet" / "__init__.py").read_text("utf-8"))
    (names,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    blocks = [f"::: trawlnet.{name}\n" for name in names if name != "__version__"]
    return "\n".join(["# Every signature of the API\n", *blocks])
