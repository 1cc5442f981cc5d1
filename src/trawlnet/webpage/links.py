"""What leads off a page, and where to: by compiled code where there is any."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, cast

from trawlnet.native.loader import page_reader
from trawlnet.webpage import links_plain as plain
from trawlnet.webpage.links_plain import TAGS, WORDS_BUDGET, Other, Raw
from trawlnet.webpage.url import resolve

_reader = page_reader()


class PageLink(NamedTuple):
    url: str  # A request URL.
    tag: str
    nofollow: bool = False
    text: str = ""
    context: str = ""  # The anchor text with a few words before and after it.


def elements(
    page: bytes, tags: tuple[str, ...], most: int, *, words: bool, around: bool
) -> tuple[list[Raw], list[Other]]:
    """What these elements of a page of UTF-8 say: its links as they stand there, and the others."""
    if _reader is None:
        return plain.elements(page, tags, most, words, around, WORDS_BUDGET)
    found = _reader.elements(page, _bits(tags), most, words, around, WORDS_BUDGET)
    return cast(tuple[list[Raw], list[Other]], found)


@cache
def _bits(tags: tuple[str, ...]) -> int:
    return sum(1 << TAGS.index(tag) for tag in tags)


def merged(links: list[Raw], base: str, most: int, codec: str = "utf-8") -> list[PageLink]:
    """With request URLs, one link for each, in the order of the page. `base` is a request URL,
    `codec` the page's own."""
    if _reader is None or not base.isascii():
        return [PageLink(*link) for link in plain.merged(links, base, most, codec)]
    root = base[: base.index("/", 8)]
    path = base.partition("?")[0]
    folder = path[: path.rindex("/") + 1]

    def join(href: str) -> str | None:
        return resolve(base, [href], most, codec)[0]

    return cast(list[PageLink], _reader.merged(links, PageLink, root, folder, most, join))
