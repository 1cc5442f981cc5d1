"""The Python half of fuzz_page.c: one page through the compiled reader and through its twin."""

from __future__ import annotations

import _page  # type: ignore[import-not-found]  # Linked into the fuzzer.
from selectolax import lexbor

from trawlnet.webpage import links_plain as plain
from trawlnet.webpage.html_cost import affordable
from trawlnet.webpage.links import PageLink
from trawlnet.webpage.links_plain import TAGS, WORDS_BUDGET
from trawlnet.webpage.url import resolve

ALL = (1 << len(TAGS)) - 1
BASES = ("http://h.example/d/p.html?q=1", "https://h.example:8/")

missing = _page.load(lexbor.__file__)
if missing:
    raise ImportError(f"the reader of pages finds no {missing}")


def compare(page: memoryview) -> None:
    """Raises AssertionError where the two differ. The page's own bytes choose the options."""
    # What a tree builder would choke on never reaches it.
    size = len(affordable(bytes(page)))
    page = page[:size]
    choice = sum(page[:: 1 + size // 16]) + size
    words, around = choice % 5 > 0, choice % 7 > 0
    most, budget = (5000, 2)[choice % 3 == 0], (WORDS_BUDGET, 300)[choice % 4 == 0]
    found = _page.elements(page, ALL, most, words, around, budget)
    assert found == plain.elements(bytes(page), TAGS, most, words, around, budget)
    base, most_url = BASES[choice % 2], (2048, 30)[choice % 11 == 0]
    links, _ = found
    root = base[: base.index("/", 8)]
    path = base.partition("?")[0]
    merged = _page.merged(
        links,
        PageLink,
        root,
        path[: path.rindex("/") + 1],
        most_url,
        lambda href: resolve(base, [href], most_url)[0],
    )
    assert merged == plain.merged(links, base, most_url)
