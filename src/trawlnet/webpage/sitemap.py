"""Sitemaps: URL lists and lists of lists, in XML or plain text; read by scanning, never expanded.

Real sitemaps are often not well formed, and a real XML parser can be made to expand entities; all
that is wanted is two elements, found in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from trawlnet.webpage.charset import as_utf8, codec_for, codec_of

MOST_ENTRIES = 50_000  # The protocol's own limit for one file.
_LONGEST = 4096  # Characters of one address, before it is looked at.


class SitemapEntry(NamedTuple):
    url: str  # As written; the caller parses it.
    lastmod: float | None = None  # Unix seconds.


@dataclass(frozen=True, slots=True)
class Sitemap:
    is_index: bool  # The entries are sitemaps, not pages.
    entries: list[SitemapEntry]


def read_sitemap(body: bytes, most: int = MOST_ENTRIES) -> Sitemap:
    """Read a sitemap; its first `most` entries. What cannot be read is left out."""
    text = _decoded(body)
    start = text[:_LONGEST].lstrip()
    if not start.startswith("<"):
        return Sitemap(False, [SitemapEntry(line) for line in _addresses(text, most)])
    root = _ROOT.search(text)
    return Sitemap(root is not None and root[1] == "sitemapindex", _entries(text, most))


def looks_like_sitemap(body: bytes) -> bool:
    """Whether it has the root of one, also if it names nothing."""
    return _ROOT.search(_decoded(body)) is not None


def _decoded(body: bytes) -> str:
    said = _DECLARATION.match(body[:200])
    codec = codec_for(said[1].decode("latin-1")) if said else None
    return as_utf8(body, codec or codec_of(body)).decode("utf-8", "replace")


_DECLARATION = re.compile(rb"<\?xml\b[^>]*?encoding\s*=\s*[\"']([^\"']{1,40})[\"']")
_ROOT = re.compile(r"<(?:[\w.-]{1,40}:)?(sitemapindex|urlset)\b")


def _addresses(text: str, most: int) -> Iterator[str]:
    """The lines of a plain text sitemap that are addresses."""
    found = 0
    for line in text.splitlines():
        address = line.strip()
        if address.startswith(("http://", "https://")) and len(address) <= _LONGEST:
            found += 1
            if found > most:
                return
            yield address


def _entries(text: str, most: int) -> list[SitemapEntry]:
    found: list[SitemapEntry] = []
    prefix: str | None = None  # Of the entry that is open: an image's <image:loc> is not its <loc>.
    url, lastmod = "", None
    for match in _ELEMENT.finditer(_without_comments(text)):
        space, name, content, data = match.groups()
        if name in ("url", "sitemap"):
            if url:
                found.append(SitemapEntry(url, lastmod))
                if len(found) >= most:
                    return found
            prefix, url, lastmod = space, "", None
        elif space == prefix:
            value = (data or _unescaped(content)).strip()
            if name == "loc" and len(value) <= _LONGEST:
                url = url or value
            elif name == "lastmod":
                lastmod = _instant(value)
    if url:
        found.append(SitemapEntry(url, lastmod))
    return found


_ELEMENT = re.compile(
    r"<([\w.-]{1,40}:)?(url|sitemap|loc|lastmod)(?=[\s>])[^<>]*>"
    r"([^<]*+)(?:<!\[CDATA\[([^\]<]{0,4096}+)\]\]>)?",
)


def _without_comments(text: str) -> str:
    start = text.find("<!--")
    if start < 0:
        return text
    pieces, at = [], 0
    while start >= 0:
        pieces.append(text[at:start])
        end = text.find("-->", start + 4)
        if end < 0:
            return "".join(pieces)
        at = end + 3
        start = text.find("<!--", at)
    pieces.append(text[at:])
    return "".join(pieces)


def _unescaped(text: str) -> str:
    return _REFERENCE.sub(_character, text) if "&" in text else text


# XML's own five and numbers, no others: a bare &copy=1 in an address is a mistake that we can read.
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def _character(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return _NAMED[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[Tt ](.{1,30}))?)?)?")


def _instant(text: str) -> float | None:
    """A W3C date and time: a year, a month, a day, or a moment with its zone."""
    match = _DATE.fullmatch(text[:60])
    if match is None:
        return None
    year, month, day, clock = match.groups()
    try:
        moment = datetime.fromisoformat(
            f"{year}-{month or '01'}-{day or '01'}T{clock or '00:00'}".upper()
        )
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
