"""What a page of the simulated web is made of: body, type, charset, validators, robots words."""

from __future__ import annotations

import json
import random
import struct
import zlib
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from html import escape

from trawlnet.sim.web.links import SimLink, links, redirect, spell
from trawlnet.sim.web.plan import TRAPS, PageKind, SimPage, SimSite
from trawlnet.sim.web.robots import robots

_FIRST_DAY = 1_700_000_000  # Unix seconds: when version 0 of every page was written.
_DAY = 86_400
_ERRORS = (404, 410, 403, 404, 410, 404, 500)
_HOSTS_WITH_TRAPS = 3  # One of so many.


@dataclass(frozen=True, slots=True)
class HonestAnswer:
    """An honest answer, before any habit, conditional request or content coding."""

    status: int
    body: bytes
    content_type: str
    location: str | None = None
    etag: str | None = None
    modified: int | None = None  # Unix seconds.
    x_robots: str | None = None


@dataclass(frozen=True, slots=True)
class Wording:
    """What a page tells robots, in its head or in a header."""

    noindex: bool = False
    nofollow: bool = False
    meta: str = ""
    header: str | None = None


_WORDINGS = (
    Wording(noindex=True, meta='<meta name="robots" content="noindex">\n'),
    Wording(nofollow=True, meta='<meta name="ROBOTS" content="NOFOLLOW">\n'),
    Wording(noindex=True, nofollow=True, meta='<meta name="robots" content="noindex, nofollow">\n'),
    Wording(noindex=True, header="noindex"),
    Wording(nofollow=True, header="noarchive, nofollow"),
    Wording(meta='<meta name="somebodyelse" content="noindex, nofollow">\n'),
    Wording(header="somebodyelse: noindex, nofollow"),
)
_SILENT = Wording()
_WORDING_SIDES = 60


def wording(site: SimSite, host: int, n: int) -> Wording:
    if site.kind(host, n) not in (PageKind.ARTICLE, PageKind.GUIDE):
        return _SILENT
    drawn = site.lot(host, n, salt=3, sides=_WORDING_SIDES)
    return _WORDINGS[drawn] if drawn < len(_WORDINGS) else _SILENT


@dataclass(frozen=True, slots=True)
class Charset:
    codec: str
    header: str  # What follows text/html in the Content-Type.
    meta: str = ""


_UTF8 = Charset("utf-8", "; charset=utf-8", '<meta charset="utf-8">\n')
_CHARSETS = (
    Charset("latin-1", "; charset=ISO-8859-1"),
    Charset("latin-1", "", '<meta charset="iso-8859-1">\n'),
    Charset("utf-16-le", "; charset=utf-16le"),
    Charset("utf-16", "", '<meta charset="utf-16">\n'),  # Python writes the byte order mark.
    Charset("cp1252", "; charset=utf-8", '<meta charset="utf-8">\n'),  # A wrong declaration.
    Charset("cp1252", "; charset=windows-1252"),
    Charset("utf-8-sig", ""),
    Charset("utf-8", ""),
)
_CHARSET_SIDES = 50


def charset(site: SimSite, host: int, n: int) -> Charset:
    drawn = site.lot(host, n, salt=4, sides=_CHARSET_SIDES)
    if site.kind(host, n) is PageKind.ARTICLE and drawn < len(_CHARSETS):
        return _CHARSETS[drawn]
    return _UTF8


def status_of(site: SimSite, node: SimPage) -> int:
    match site.kind(node.host, node.n):
        case PageKind.MOVED:
            return redirect(site, node).status
        case PageKind.GONE:
            return _ERRORS[node.n % len(_ERRORS)]
        case _:
            return 200


def answer(site: SimSite, node: SimPage) -> HonestAnswer:
    """The honest answer for a node, made from nothing but the plan."""
    host, n = node.host, node.n
    kind = site.kind(host, n)
    status = status_of(site, node)
    if kind is PageKind.MOVED:
        return HonestAnswer(status, b"", "text/html", location=redirect(site, node).location)
    if kind is PageKind.GONE:
        return HonestAnswer(status, f"<h1>{status}</h1>".encode(), "text/html; charset=utf-8")
    coding = charset(site, host, n)
    if kind.html:
        body = _html(site, node, coding).encode(coding.codec)
        content_type = f"text/html{coding.header}"
    else:
        body, content_type = _file(site, host, n, kind)
    etag, modified = validators(site, host, n)
    said = wording(site, host, n)
    return HonestAnswer(status, body, content_type, None, etag, modified, said.header)


def validators(site: SimSite, host: int, n: int) -> tuple[str | None, int | None]:
    """ETag and Last-Modified: both, one, a weak one, or none; computed without the body."""
    revision = site.revision(host, n)
    mark = zlib.crc32(f"{site.seed} {host} {n} {revision}".encode())
    etag = f'"{mark:08x}-{revision}"'
    modified = _FIRST_DAY + n * 60 + revision * _DAY
    drawn = site.lot(host, n, salt=5, sides=8)
    if drawn == 0:
        return None, None
    if drawn == 1:
        return f"W/{etag}", None
    if drawn == 2:
        return None, modified
    return etag, (modified if drawn > 4 else None)


def _html(site: SimSite, node: SimPage, coding: Charset) -> str:
    host, n = node.host, node.n
    rng = site.rng(host, n, salt=6)
    found = links(site, host, n)
    path = site.path(host, n).partition("?")[0]
    directory = path[: path.rindex("/") + 1]
    base = _base(site, node, found)
    if base:
        directory = base[: base.rindex("/") + 1]
    pool = paragraphs(site.seed)
    size = len(pool)
    text = [pool[int(rng.random() * size)] for _ in range(8 + int(rng.random() * 16))]
    anchors = [_anchor(site, link, directory, host, rng) for link in found]
    share = len(anchors) // len(text) + 1
    mixed = [one + "".join(anchors[at * share : at * share + share]) for at, one in enumerate(text)]
    head = _base_tag(site, host, base) + wording(site, host, n).meta + _head(site, node, found)
    return (
        f"<!doctype html>\n<html>\n<head>\n{coding.meta}<title>Page {n} of {site.hosts[host]}"
        f"</title>\n{head}</head>\n<body>\n"
        f"<h1>Page {n}</h1>\n<p>Revision {site.revision(host, n)}</p>\n{''.join(mixed)}"
        f"{_noise(rng, n)}{_trap_doors(site, host, n)}</body>\n</html>\n"
    )


def _base(site: SimSite, node: SimPage, found: list[SimLink]) -> str:
    """The path that some pages resolve their links against: one that they lead to anyway."""
    if site.lot(node.host, node.n, salt=7, sides=12):
        return ""
    near = (link.target for link in found if link.target.host == node.host)
    articles = (t.n for t in near if site.kind(t.host, t.n) is PageKind.ARTICLE)
    n = next(articles, 0)
    return site.path(node.host, n) if n else ""


def _base_tag(site: SimSite, host: int, base: str) -> str:
    return f'<base href="{site.base(host)}{base}">\n' if base else ""


def _anchor(site: SimSite, link: SimLink, directory: str, host: int, rng: random.Random) -> str:
    relation = ' rel="nofollow"' if link.nofollow else ""
    href = spell(site, link, directory, host, rng)
    return f'<a href="{href}"{relation}>to page {link.target.n}</a>\n'


def _head(site: SimSite, node: SimPage, found: list[SimLink]) -> str:
    """Links that are not anchors; each leads where an anchor of the same page leads, too."""
    here = escape(site.url(node))
    first = escape(site.url(found[0].target))
    match site.lot(node.host, node.n, salt=8, sides=10):
        case 0:
            return f'<meta http-equiv="refresh" content="30; url={first}">\n'
        case 1 | 2 | 3:
            return f'<link rel="canonical" href="{here}">\n'
        case 4:
            return f'<link rel="next" href="{first}">\n'
        case _:
            return ""


_NOISE = (
    '<a href="mailto:somebody@example.com">write</a>',
    '<a href=" javascript:void(0)">menu</a>',
    '<a href="tel:+000">call</a>',
    '<a href="data:text/html,<a href=/never/1>">data</a>',
    '<a href="http://[bad/">broken</a>',
    '<a href="http://elsewhere.invalid/page">elsewhere</a>',
    '<a href="https://user:secret@example.invalid/">with a password</a>',
    '<a href="#top">up</a>',
    '<a href="">here</a>',
    "<a>nowhere</a>",
    '<!-- <a href="/never/2">commented out</a> -->',
    "<script>document.write('<a href=\"/never/3\">scripted</a>')</script>",
)


def _noise(rng: random.Random, n: int) -> str:
    first = int(rng.random() * len(_NOISE))
    return "\n".join(_NOISE[(first + step) % len(_NOISE)] for step in range(3 + n % 3)) + "\n"


def _trap_doors(site: SimSite, host: int, n: int) -> str:
    if n or host % _HOSTS_WITH_TRAPS or robots(site, host).traps_denied:
        return ""
    doors = ("/calendar/2030/01", "/maze/a/", "/session/item/1", "/facets?sort=up")
    assert all(door.startswith(trap) for door, trap in zip(doors, TRAPS, strict=True))
    return "".join(f'<a href="{door}">more</a>\n' for door in doors)


def _file(site: SimSite, host: int, n: int, kind: PageKind) -> tuple[bytes, str]:
    rng = site.rng(host, n, salt=9)
    revision = site.revision(host, n)
    noise = rng.randbytes(600 + int(rng.random() * 3000))
    if kind is PageKind.PNG:
        return _png(noise + bytes([revision % 256])), "image/png"
    if kind is PageKind.PDF:
        head = b"%%PDF-1.4\n%% revision %d\n1 0 obj\n<< /Type /Catalog >>\nendobj\n" % revision
        return head + noise.hex().encode() + b"\n%%EOF\n", "application/pdf"
    row = {"host": site.hosts[host], "page": n, "revision": revision, "data": noise.hex()}
    return json.dumps(row).encode(), "application/json"


def _png(pixels: bytes) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", len(pixels), 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\x00" + pixels))
        + chunk(b"IEND", b"")
    )


def http_date(moment: int) -> str:
    return formatdate(moment, usegmt=True)


_POOL_SIZE = 192
_SYLLABLES = (
    "ba be bo da de di fa fe ga go ha he ka ke ki la le li lo ma me mi mo na ne no pa pe po ra re "
    "ri ro sa se si so ta te ti to va ve vi vo za zo ün é ß ö"
)


@lru_cache(maxsize=4)
def paragraphs(seed: int) -> tuple[str, ...]:
    """Paragraphs of 250 to 900 characters, all of which fit into Latin-1."""
    rng = random.Random(seed)
    syllables = _SYLLABLES.split()
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(900)]
    return tuple(
        f"<p>{_sentences(rng, words, rng.randint(250, 900))}</p>\n" for _ in range(_POOL_SIZE)
    )


def _sentences(rng: random.Random, words: list[str], length: int) -> str:
    said = ""
    while len(said) < length:
        said += " ".join(rng.choices(words, k=rng.randint(6, 16))).capitalize() + ". "
    return said.rstrip()
