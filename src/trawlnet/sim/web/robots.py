"""robots.txt in many shapes, each with the page kinds that it forbids, known by construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from trawlnet.sim.habits import Habit
from trawlnet.sim.web.plan import PageKind, SimSite

PARSE_FLOOR = 500 << 10  # Every crawler must read at least so much.
_EVERYTHING = frozenset(PageKind)


class Shape(StrEnum):
    PLAIN = "plain"
    WILDCARDS = "wildcards"
    GROUPS = "groups"  # Several, two of them for the same agent in different case.
    MISSING = "missing"
    BOM = "bom"
    MESSY = "messy"  # Carriage returns, unknown lines, comments, a tie.
    LONG = "long"
    REDIRECTED = "redirected"
    CHARSET = "charset"  # Neither in UTF-8 nor in what the header says.
    FORBIDDEN = "forbidden"  # 403, which lets everybody in.
    ONLY = "only"  # All closed but a few.
    FAILING = "failing"  # 503, which keeps everybody out.


@dataclass(frozen=True, slots=True)
class SimRobots:
    """The answer to /robots.txt, and what it means to a crawler that obeys."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    location: str | None = None
    denied: frozenset[PageKind] = frozenset()
    traps_denied: bool = False
    crawl_delay: float | None = None
    sitemap: bool = False


_SHAPES = tuple(Shape)
REDIRECTED_PATHS = ("/robots/one.txt", "/robots/two.txt")


def shape(site: SimSite, host: int) -> Shape:
    if site.habits[host] is not Habit.GOOD:
        return Shape.PLAIN
    return _SHAPES[site.places[host] % len(_SHAPES)]


def robots(site: SimSite, host: int, path: str = "/robots.txt") -> SimRobots:
    return _MAKERS[shape(site, host)](site, host, path)


def _plain(site: SimSite, host: int, path: str) -> SimRobots:
    text = (
        "User-agent: *\n"
        "Disallow: /private/\n"
        "Allow: /private/open/\n"
        f"Crawl-delay: {site.crawl_delay}\n"
        f"\nSitemap: {site.base(host)}/sitemap.xml\n"
    )
    return SimRobots(
        body=text.encode(),
        denied=frozenset({PageKind.PRIVATE}),
        crawl_delay=site.crawl_delay,
        sitemap=True,
    )


def _wildcards(site: SimSite, host: int, path: str) -> SimRobots:
    text = (
        "User-agent: *\n"
        "Disallow: /*.php$\n"
        "Disallow: /*?print=\n"
        "Disallow: /files/*.pdf\n"
        "Allow: /private/*\n"
        "Disallow: /*/open/*.htm$\n"
        f"Sitemap: {site.base(host)}/sitemap.xml\n"
    )
    denied = frozenset({PageKind.SCRIPT, PageKind.PRINT, PageKind.PDF})
    return SimRobots(body=text.encode(), denied=denied, sitemap=True)


def _groups(site: SimSite, host: int, path: str) -> SimRobots:
    text = (
        "User-agent: *\nDisallow: /\n\n"
        f"User-agent: somebodyelse\nUser-agent: {site.agent}\n"
        "Disallow: /private/\nAllow: /private/open/\n\n"
        "User-agent: anotherbot\nDisallow: /articles/\n\n"
        f"User-agent: {site.agent.upper()}\nDisallow: /scripts/\n"
        f"Sitemap: {site.base(host)}/sitemap.xml\n"
    )
    denied = frozenset({PageKind.PRIVATE, PageKind.SCRIPT})
    return SimRobots(body=text.encode(), denied=denied, sitemap=True)


def _missing(site: SimSite, host: int, path: str) -> SimRobots:
    return SimRobots(status=404, body=b"<h1>Not found</h1>", content_type="text/html")


def _bom(site: SimSite, host: int, path: str) -> SimRobots:
    text = "\ufeffUser-agent: *\nDisallow: /private/\nDisallow: /café/\n"
    return SimRobots(
        body=text.encode(), denied=frozenset({PageKind.PRIVATE, PageKind.OPEN, PageKind.ACCENT})
    )


def _messy(site: SimSite, host: int, path: str) -> SimRobots:
    delay = site.crawl_delay * 2
    text = (
        "# keep out of the kitchen\r\n"
        "Host: example.test\r\n"
        "user-AGENT :  *   # everybody\r\n"
        "\r\n"
        "Disallow:\r\n"
        "Noindex: /docs/\r\n"
        "disallow: /print/   # paper is dear\r\n"
        "Disallow: /list\r\n"
        "Allow: /list\r\n"
        "a line that means nothing\r\n"
        f"crawl-delay: {delay}\r\n"
        "Disallow: /scripts/"
    )
    denied = frozenset({PageKind.PRINT, PageKind.SCRIPT})
    return SimRobots(body=text.encode(), denied=denied, crawl_delay=delay)


def _long(site: SimSite, host: int, path: str) -> SimRobots:
    return SimRobots(body=_long_body(), denied=frozenset({PageKind.PRIVATE, PageKind.OPEN}))


@lru_cache(maxsize=1)
def _long_body() -> bytes:
    head, rule = b"User-agent: *\n", b"Disallow: /private/\n"
    line = b"# " + b"padding " * 12 + b"\n"
    room = PARSE_FLOOR - len(head) - len(rule)
    # The rule ends just inside what everybody must read; what follows decides nothing.
    padding = (line * (room // len(line) + 1))[: room - 1] + b"\n"
    tail = line * 400 + b"Disallow: /never-linked/\n"
    return head + padding + rule + tail


def _redirected(site: SimSite, host: int, path: str) -> SimRobots:
    denied = frozenset({PageKind.PRIVATE, PageKind.OPEN})
    steps = ("/robots.txt", *REDIRECTED_PATHS)
    step = steps.index(path)
    if step + 1 < len(steps):
        return SimRobots(status=301, location=steps[step + 1], denied=denied)
    return SimRobots(body=b"User-agent: *\nDisallow: /private/\n", denied=denied)


def _charset(site: SimSite, host: int, path: str) -> SimRobots:
    text = "# Für Besucher: café geschlossen\nUser-agent: *\nDisallow: /caf%c3%a9/\n"
    return SimRobots(
        body=text.encode("latin-1"),
        content_type="text/html; charset=utf-16",
        denied=frozenset({PageKind.ACCENT}),
    )


def _forbidden(site: SimSite, host: int, path: str) -> SimRobots:
    return SimRobots(status=403, body=b"User-agent: *\nDisallow: /\n")


def _only(site: SimSite, host: int, path: str) -> SimRobots:
    text = "User-agent: *\nDisallow: /\nAllow: /$\nAllow: /articles/\nAllow: /docs/\n"
    denied = _EVERYTHING - {PageKind.HOME, PageKind.ARTICLE, PageKind.GUIDE}
    return SimRobots(body=text.encode(), denied=denied, traps_denied=True)


def _failing(site: SimSite, host: int, path: str) -> SimRobots:
    return SimRobots(status=503, body=b"back soon\n", denied=_EVERYTHING, traps_denied=True)


_MAKERS: dict[Shape, Callable[[SimSite, int, str], SimRobots]] = {
    Shape.PLAIN: _plain,
    Shape.WILDCARDS: _wildcards,
    Shape.GROUPS: _groups,
    Shape.MISSING: _missing,
    Shape.BOM: _bom,
    Shape.MESSY: _messy,
    Shape.LONG: _long,
    Shape.REDIRECTED: _redirected,
    Shape.CHARSET: _charset,
    Shape.FORBIDDEN: _forbidden,
    Shape.ONLY: _only,
    Shape.FAILING: _failing,
}
