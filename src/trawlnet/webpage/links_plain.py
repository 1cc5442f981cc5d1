"""What leads off a page, in plain Python: the twin of the compiled reader."""

from __future__ import annotations

from typing import TypeAlias

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from trawlnet.webpage.url import resolve

Attributes: TypeAlias = dict[str, str | None]
# href, tag, nofollow, anchor text, context
Raw: TypeAlias = tuple[str, str, bool, str, str]
# How many links are before it, tag, attributes
Other: TypeAlias = tuple[int, str, Attributes]

OTHERS = ("base", "link", "meta")  # Elements that are no links themselves, or not always.
TAGS = ("a", "area", "iframe", "frame", *OTHERS)
WORDS_BUDGET = 4 << 20  # Characters that are looked at for the words of one page.
WITHOUT_EVENTS = LexborDocumentOptions.WO_EVENTS.value  # Mirroring <option>s is quadratic.

# The same as in words.h.
_SLACK = 2000  # Characters of raw text that are looked at for one anchor.
_TEXT_MAX = 200  # Characters.
_SIDE_MAX = 60  # Characters of context on each side.


def elements(
    page: bytes, tags: tuple[str, ...], most: int, words: bool, around: bool, budget: int
) -> tuple[list[Raw], list[Other]]:
    links: list[Raw] = []
    others: list[Other] = []
    taken = _Words(around, budget)
    document = LexborHTMLParser(page, options=WITHOUT_EVENTS)
    for node in document.css(",".join(tags)):
        tag, attributes = node.tag or "", node.attributes
        if tag in OTHERS:
            others.append((len(links), tag, attributes))
            continue
        href = attributes.get("src" if tag in ("iframe", "frame") else "href")
        # A link into the same page says nothing new.
        if not href or href[0] == "#" or len(links) >= most:
            continue
        nofollow = "nofollow" in (attributes.get("rel") or "").lower().split()
        text, context = taken.of(node) if words and tag == "a" else ("", "")
        links.append((href, tag, nofollow, text, context))
    return links, others


class _Words:
    """Anchors can be nested so that one text is in thousands of them: there is a budget."""

    def __init__(self, around: bool, budget: int) -> None:
        self._around = around
        self._budget = budget

    def of(self, anchor: LexborNode) -> tuple[str, str]:
        """Its text, and that with what stands beside it."""
        if self._budget <= 0:
            return "", ""
        whole = anchor.text()
        text = " ".join(whole[:_SLACK].split())[:_TEXT_MAX]
        self._budget -= len(whole) + 1
        if not self._around:
            return text, ""
        before, after = _beside(anchor.prev), _beside(anchor.next)
        self._budget -= len(before) + len(after)
        context = f"{before[-_SIDE_MAX:]}{text}{after[:_SIDE_MAX]}"
        return text, " ".join(context.split())


def _beside(node: LexborNode | None) -> str:
    return (node.text_content or "") if node is not None else ""


def merged(links: list[Raw], base: str, most: int, codec: str = "utf-8") -> list[Raw]:
    """One link for each request URL, which stands in the place of the href."""
    urls = resolve(base, [link[0] for link in links], most, codec)
    found: dict[str, Raw] = {}
    for url, (_, tag, nofollow, text, context) in zip(urls, links, strict=True):
        if url is None:
            continue
        known = found.get(url)
        if known is not None:
            # One link that may be followed is enough; the first one with words names it.
            frees = known[2] and not nofollow
            names = text and not known[3]
            if not (frees or names):
                continue
            nofollow = nofollow and known[2]
        found[url] = (url, tag, nofollow, text, context)
    return list(found.values())
