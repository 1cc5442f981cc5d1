"""Reads an HTML page: its links, its words to robots, and its text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from selectolax.lexbor import LexborHTMLParser

from trawlnet.webpage.charset import as_utf8, codec_of
from trawlnet.webpage.html_cost import affordable
from trawlnet.webpage.links import PageLink, elements, merged
from trawlnet.webpage.links_plain import OTHERS, WITHOUT_EVENTS, Attributes, Other, Raw
from trawlnet.webpage.robots_tag import NO_WORDS, RobotsWords, words_for
from trawlnet.webpage.url import MAX_URL, resolve

__all__ = ["HtmlPage", "LinkChoice", "PageLink", "read_page"]


@dataclass(frozen=True)
class LinkChoice:
    """Which links of a page count, and which of their texts are read."""

    tags: tuple[str, ...] = ("a", "area", "link", "iframe", "refresh")
    rels: tuple[str, ...] = ("next", "canonical", "alternate")  # Of <link> and the Link header.
    most: int = 5000  # Links of one page.
    most_url: int = MAX_URL  # Characters of one URL.
    words: bool = True  # Anchor text.
    around: bool = True  # And what stands around it.
    agent: str = ""  # Product token, for <meta name=that>.

    @cached_property
    def elements(self) -> tuple[str, ...]:
        framed = ("iframe", "frame") if "iframe" in self.tags else ()
        return (*(tag for tag in ("a", "area") if tag in self.tags), *framed, *OTHERS)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    links: list[PageLink]  # One for each URL, in the order of the page.
    base: str  # The URL that they were resolved against.
    robots: RobotsWords
    canonical: str | None
    codec: str
    cut: bool  # Too deep, too tangled or too full of links to be read to its end.
    text: str = ""


def read_page(
    body: bytes,
    url: str,
    choice: LinkChoice,
    *,
    content_type: str = "",
    link_headers: Iterable[str] = (),
    with_text: bool = False,
) -> HtmlPage:
    """Read a page that came from `url`, a request URL. Never raises for what is in the body."""
    codec = codec_of(body, content_type)
    page = as_utf8(body, codec)
    whole = affordable(page)
    # One more than are wanted: so it is known whether there are more.
    links, others = elements(
        whole, choice.elements, choice.most + 1, words=choice.words, around=choice.around
    )
    found = _Found(choice, links)
    found.take_all(others)
    for header in link_headers:
        found.take_header(header)
    base = _base(found.base, url, choice.most_url)
    most = choice.most_url
    canonical = resolve(base, [found.canonical], most, codec)[0] if found.canonical else None
    return HtmlPage(
        merged(found.links, base, most, codec),
        base,
        found.robots,
        canonical,
        codec,
        len(whole) < len(page) or found.more,
        _text(whole) if with_text else "",
    )


class _Found:
    """The links of a page, and what its other elements say of them."""

    def __init__(self, choice: LinkChoice, links: list[Raw]) -> None:
        self._choice = choice
        self._links_wanted = "link" in choice.tags
        self.links = links
        self.more = False  # Links beyond the most that are wanted.
        self.base = ""
        self.canonical = ""
        self.robots = NO_WORDS

    def take_all(self, others: Iterable[Other]) -> None:
        """In the order of the page, with those among the links that are links."""
        most, more = self._choice.most, 0
        for before, tag, attributes in others:
            link = self._taken(tag, attributes)
            if link is not None and more <= most:
                self.links.insert(before + more, link)
                more += 1
        self.more = len(self.links) > most
        del self.links[most:]

    def _taken(self, tag: str, attributes: Attributes) -> Raw | None:
        if tag == "meta":
            return self._taken_meta(attributes)
        if tag == "link":
            rels = (attributes.get("rel") or "").lower().split()
            return self._related(attributes.get("href") or "", rels)
        self.base = self.base or attributes.get("href") or ""
        return None

    def _related(self, href: str, rels: list[str]) -> Raw | None:
        if "canonical" in rels:
            self.canonical = self.canonical or href
        wanted = self._links_wanted and any(rel in self._choice.rels for rel in rels)
        return (href, "link", "nofollow" in rels, "", "") if wanted and href else None

    def _taken_meta(self, attributes: Attributes) -> Raw | None:
        content = attributes.get("content") or ""
        name = (attributes.get("name") or "").strip().lower()
        if name == "robots" or (name and name == self._choice.agent):
            self.robots |= words_for(content)
        elif (attributes.get("http-equiv") or "").strip().lower() == "refresh":
            target = _REFRESH.match(content[: self._choice.most_url + 100])
            if target and "refresh" in self._choice.tags:
                return (target[1].rstrip("\"' "), "refresh", False, "", "")
        return None

    def take_header(self, header: str) -> None:
        for match in _LINK_HEADER.finditer(header[:_HEADER_MAX]):
            rel = _REL.search(match[2])
            link = rel and self._related(match[1].strip(), (rel[1] or rel[2]).lower().split())
            if link and len(self.links) < self._choice.most:
                self.links.append(link)
            elif link:
                self.more = True


_HEADER_MAX = 16 << 10  # Characters of one header.

_REFRESH = re.compile(r"\s*[\d.]*\s*[;,\s]\s*(?:url\s*=\s*)?[\"']?\s*(\S.*)", re.I | re.S)
_LINK_HEADER = re.compile(r"<([^<>]*)>((?:[^<,\"]|\"[^\"]*\")*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.I)


def _base(href: str, url: str, most: int) -> str:
    return (resolve(url, [href], most)[0] if href else None) or url


_NOT_TEXT = ["script", "style", "noscript", "template", "svg", "iframe"]


def _text(page: bytes) -> str:
    """The words that a reader sees."""
    document = LexborHTMLParser(page, options=WITHOUT_EVENTS)
    document.strip_tags(_NOT_TEXT, recursive=True)
    return document.body.text(separator=" ") if document.body is not None else ""
