"""What a crawler wants from an HTML page: its links, what it says to robots, and its words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from trawlnet.formats.charset import as_utf8, codec_of
from trawlnet.formats.htmlcost import affordable
from trawlnet.formats.robotstag import NO_WORDS, RobotsWords, words_for
from trawlnet.formats.url import MAX_URL, resolve

_WITHOUT_EVENTS = LexborDocumentOptions.WO_EVENTS.value  # Mirroring <option>s is quadratic.


@dataclass(frozen=True)
class LinkChoice:
    """Which links of a page count, and how much is kept of each."""

    tags: tuple[str, ...] = ("a", "area", "link", "iframe", "refresh")
    rels: tuple[str, ...] = ("next", "canonical", "alternate")  # Of <link> and the Link header.
    most: int = 5000  # Links of one page.
    most_url: int = MAX_URL  # Characters of one URL.
    words: bool = True  # Anchor text.
    around: bool = True  # And what stands around it.
    agent: str = ""  # Product token, for <meta name=that>.

    @cached_property
    def selector(self) -> str:
        named = {"a": "a[href]", "area": "area[href]", "iframe": "iframe[src],frame[src]"}
        chosen = [named[tag] for tag in self.tags if tag in named]
        return ",".join([*chosen, "link[rel][href]", "base[href]", "meta[content]"])


class Link(NamedTuple):
    url: str  # A request URL.
    tag: str
    nofollow: bool = False
    text: str = ""
    context: str = ""  # The anchor text with a few words before and after it.


@dataclass(frozen=True, slots=True)
class Page:
    links: list[Link]  # One for each URL, in the order of the page.
    base: str  # The URL that they were resolved against.
    robots: RobotsWords
    canonical: str | None
    codec: str
    cut: bool  # Too deep or too tangled to be read to its end.
    text: str = ""


def read_page(
    body: bytes,
    url: str,
    choice: LinkChoice,
    *,
    content_type: str = "",
    link_headers: Iterable[str] = (),
    with_text: bool = False,
) -> Page:
    """Read a page that came from `url`, a request URL. Never raises for what is in the body."""
    codec = codec_of(body, content_type)
    page = as_utf8(body, codec)
    whole = affordable(page)
    document = LexborHTMLParser(whole, options=_WITHOUT_EVENTS)
    found = _Found(choice)
    found.take_all(document.css(choice.selector))
    for header in link_headers:
        found.take_header(header)
    base = _base(found.base, url, choice.most_url)
    links, canonical = _resolved(found, base, choice)
    text = _text(document) if with_text else ""
    return Page(links, base, found.robots, canonical, codec, len(whole) < len(page), text)


# As it stands there: href, tag, nofollow, and the anchor that may have words.
_Raw = tuple[str, str, bool, LexborNode | None]


class _Found:
    """What one pass over the chosen elements has seen."""

    def __init__(self, choice: LinkChoice) -> None:
        self._choice = choice
        self._links_wanted = "link" in choice.tags
        self.raw: list[_Raw] = []
        self.base = ""
        self.canonical = ""
        self.robots = NO_WORDS

    def take_all(self, nodes: Iterable[LexborNode]) -> None:
        raw, most, words = self.raw, self._choice.most, self._choice.words
        for node in nodes:
            tag = node.tag or ""
            attributes = node.attributes
            if tag in _OTHERS:
                self._take_other(tag, attributes)
                continue
            href = attributes.get("href") or attributes.get("src")
            # A link into the same page says nothing new.
            if not href or href[0] == "#" or len(raw) >= most:
                continue
            rel = attributes.get("rel")
            nofollow = rel is not None and "nofollow" in rel.lower().split()
            raw.append((href, tag, nofollow, node if words and tag == "a" else None))

    def _take_other(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "meta":
            self._take_meta(attributes)
        elif tag == "base":
            self.base = self.base or attributes.get("href") or ""
        else:
            rels = (attributes.get("rel") or "").lower().split()
            self._take_related(attributes.get("href") or "", rels)

    def _take_related(self, href: str, rels: list[str]) -> None:
        if "canonical" in rels:
            self.canonical = self.canonical or href
        wanted = self._links_wanted and any(rel in self._choice.rels for rel in rels)
        if wanted and href and len(self.raw) < self._choice.most:
            self.raw.append((href, "link", "nofollow" in rels, None))

    def _take_meta(self, attributes: dict[str, str | None]) -> None:
        content = attributes.get("content") or ""
        name = (attributes.get("name") or "").strip().lower()
        if name == "robots" or (name and name == self._choice.agent):
            self.robots |= words_for(content)
        elif (attributes.get("http-equiv") or "").strip().lower() == "refresh":
            target = _REFRESH.match(content[: self._choice.most_url + 100])
            if target and "refresh" in self._choice.tags:
                self.raw.append((target[1].rstrip("\"' "), "refresh", False, None))

    def take_header(self, header: str) -> None:
        for match in _LINK_HEADER.finditer(header[:_HEADER_MAX]):
            rel = _REL.search(match[2])
            if rel:
                self._take_related(match[1].strip(), (rel[1] or rel[2]).lower().split())


_OTHERS = frozenset(("base", "link", "meta"))
_HEADER_MAX = 16 << 10  # Characters of one header.

_REFRESH = re.compile(r"\s*[\d.]*\s*[;,\s]\s*(?:url\s*=\s*)?[\"']?\s*(\S.*)", re.I | re.S)
_LINK_HEADER = re.compile(r"<([^<>]*)>((?:[^<,\"]|\"[^\"]*\")*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.I)


def _base(href: str, url: str, most: int) -> str:
    return (resolve(url, [href], most)[0] if href else None) or url


def _resolved(found: _Found, base: str, choice: LinkChoice) -> tuple[list[Link], str | None]:
    urls = resolve(base, [raw[0] for raw in found.raw], choice.most_url)
    words = _Words(choice.around)
    links: dict[str, Link] = {}
    for url, (_, tag, nofollow, anchor) in zip(urls, found.raw, strict=True):
        if url is None:
            continue
        known = links.get(url)
        if known is None:
            text, context = words.of(anchor) if anchor is not None else _NO_WORDS
            links[url] = _link(Link, (url, tag, nofollow, text, context))
        # One link that may be followed is enough; the first one with words names it.
        elif not known.text or (known.nofollow and not nofollow):
            text, context = words.of(anchor) if anchor is not None else _NO_WORDS
            if text or (known.nofollow and not nofollow):
                links[url] = Link(url, tag, nofollow and known.nofollow, text, context)
    canonical = resolve(base, [found.canonical], choice.most_url)[0] if found.canonical else None
    return list(links.values()), canonical


_link = tuple.__new__  # A third of the time that the class takes.
_NO_WORDS = ("", "")


class _Words:
    """Anchors can be nested so that one text is in thousands of them: there is a budget."""

    def __init__(self, around: bool) -> None:
        self._around = around
        self._budget = _WORDS_BUDGET

    def of(self, anchor: LexborNode) -> tuple[str, str]:
        """Its text, and that with what stands beside it."""
        if self._budget <= 0:
            return _NO_WORDS
        whole = anchor.text()
        # Of what is white space, only the space is printable.
        if whole.isprintable() and "  " not in whole and len(whole) < _TEXT_MAX:
            text = whole.strip()
        else:
            text = " ".join(whole[:_SLACK].split())[:_TEXT_MAX]
        if not self._around:
            self._budget -= len(whole) + 1
            return text, ""
        before, after = anchor.prev, anchor.next
        near = (before.text_content or "") if before is not None else ""
        far = (after.text_content or "") if after is not None else ""
        self._budget -= len(whole) + len(near) + len(far) + 1
        around = f"{near[-_SIDE_MAX:]}{text}{far[:_SIDE_MAX]}"
        # Line ends and tabs are not printable; most text between two tags has neither.
        return text, around.strip() if around.isprintable() else " ".join(around.split())


_WORDS_BUDGET = 4 << 20  # Characters.
_SLACK = 2000  # Characters of raw text that are looked at for one anchor.
_TEXT_MAX = 200  # Characters.
_SIDE_MAX = 60  # Characters of context on each side.

_NOT_TEXT = ["script", "style", "noscript", "template", "svg", "iframe"]


def _text(document: LexborHTMLParser) -> str:
    """The words that a reader sees; the document is of no use for links afterwards."""
    document.strip_tags(_NOT_TEXT, recursive=True)
    return document.body.text(separator=" ") if document.body is not None else ""
