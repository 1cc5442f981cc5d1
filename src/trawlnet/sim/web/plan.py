"""The plan of a simulated web: which host has which page under which path, all by arithmetic."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from trawlnet.sim.habits import Habit

TRACKING = ("utm_source", "utm_medium", "utm_campaign", "fbclid", "gclid")
TRAPS = ("/calendar/", "/maze/", "/session/", "/facets")
_SICK_HOST_PAGES = 8  # A host with a bad habit shows it on a few pages as well as on many.


class PageKind(StrEnum):
    """The kind of a page, by its number; the value is its path."""

    HOME = "/"
    ARTICLE = "/articles/{n}.html"
    GUIDE = "/docs/guide/{n}"
    LIST = "/list?page={n}"
    PRIVATE = "/private/{n}.html"
    OPEN = "/private/open/{n}.html"
    ACCENT = "/caf%C3%A9/{n}"
    SCRIPT = "/scripts/{n}.php"
    PRINT = "/print/{n}?print=1"
    PNG = "/files/{n}.png"
    PDF = "/files/{n}.pdf"
    JSON = "/files/{n}.json"
    MOVED = "/moved/{n}"  # A redirect.
    GONE = "/gone/{n}"  # An error.
    PARTNER = "/partners/{n}.html"  # Linked with rel=nofollow only.
    ARCHIVE = "/archive/{n}.html"  # In the sitemap only.

    @property
    def html(self) -> bool:
        return self not in (
            PageKind.PNG,
            PageKind.PDF,
            PageKind.JSON,
            PageKind.MOVED,
            PageKind.GONE,
        )


_SHARES = (
    (PageKind.ARTICLE, 42),
    (PageKind.GUIDE, 12),
    (PageKind.LIST, 8),
    (PageKind.PRIVATE, 6),
    (PageKind.OPEN, 3),
    (PageKind.ACCENT, 3),
    (PageKind.SCRIPT, 2),
    (PageKind.PRINT, 2),
    (PageKind.PNG, 3),
    (PageKind.PDF, 2),
    (PageKind.JSON, 3),
    (PageKind.MOVED, 6),
    (PageKind.GONE, 3),
    (PageKind.PARTNER, 2),
    (PageKind.ARCHIVE, 3),
)
_HUNDRED = tuple(kind for kind, share in _SHARES for _ in range(share))
assert len(_HUNDRED) == 100


class SimPage(NamedTuple):  # Made thirty times for each page: a tuple costs a third of a dataclass.
    """One answer of the world: page `n` of a host; `hop` counts along a chain of redirects."""

    host: int
    n: int
    hop: int = 0


@dataclass(frozen=True)
class SimSite:
    seed: int
    hosts: tuple[str, ...]  # As they stand in URLs: addresses, or names.
    habits: tuple[Habit, ...]  # One for each host.
    pages: int  # On each well-behaved host.
    port: int
    agent: str = "trawlnet"  # The product token that robots rules are written for.
    crawl_delay: float = 0.05
    version: int = 0  # About a tenth of the pages say something else in each version.

    @cached_property
    def good(self) -> tuple[int, ...]:
        return tuple(h for h, habit in enumerate(self.habits) if habit is Habit.GOOD)

    @cached_property
    def places(self) -> dict[int, int]:
        """The place of each healthy host among the healthy ones."""
        return {host: place for place, host in enumerate(self.good)}

    def pages_on(self, host: int) -> int:
        good = self.habits[host] is Habit.GOOD
        return self.pages if good else min(self.pages, _SICK_HOST_PAGES)

    def base(self, host: int) -> str:
        return f"http://{self.hosts[host]}:{self.port}"

    def kind(self, host: int, n: int) -> PageKind:
        if n == 0:
            return PageKind.HOME
        # 37 is prime to 100: neighbours differ, and every hundred pages have the same shares.
        return _HUNDRED[(n * 37 + host * 13 + self.seed) % 100]

    def path(self, host: int, n: int) -> str:
        return self.kind(host, n).format(n=n)

    def url(self, node: SimPage) -> str:
        path = self.path(node.host, node.n)
        return f"{self.base(node.host)}{path}{f'/{node.hop}' if node.hop else ''}"

    def changes(self, host: int, n: int) -> bool:
        return (n * 3 + host + self.seed) % 10 == 0

    def revision(self, host: int, n: int) -> int:
        return self.version if self.changes(host, n) else 0

    def lot(self, host: int, n: int, salt: int, sides: int) -> int:
        """A small deterministic draw for a page, cheaper than a generator."""
        mixed = (n * 0x9E3779B1 + host * 0x85EBCA77 + (self.seed + salt) * 0xC2B2AE3D) & 0xFFFFFFFF
        return (mixed ^ mixed >> 15) * 0x2C1B3C6D % 0xFFFFFFFB % sides

    def rng(self, host: int, n: int, salt: int) -> random.Random:
        return random.Random(((self.seed * 1_000_003 + host) * 1_000_003 + n) * 64 + salt)

    def find(self, host: int, raw_path: str) -> SimPage | None:
        """The node that a request for this path and query means, tracking parameters ignored."""
        path, _, query = raw_path.partition("?")
        wanted = _plain(path, query)
        if wanted == "/":
            return SimPage(host, 0)
        if moved := _MOVED.fullmatch(path):
            node = SimPage(host, int(moved[1]), int(moved[2] or 0))
            known = 0 < node.n < self.pages_on(host) and self.kind(host, node.n) is PageKind.MOVED
            return node if known else None
        number = _NUMBER.search(wanted)
        n = int(number[0]) if number else 0
        if not 0 < n < self.pages_on(host):
            return None
        here = self.path(host, n)
        return SimPage(host, n) if _plain(*_halves(here)) == wanted else None


_MOVED = re.compile(r"/moved/(\d{1,9})(?:/([1-9]\d?))?")
_NUMBER = re.compile(r"\d{1,9}")


def _halves(path: str) -> tuple[str, str]:
    before, _, after = path.partition("?")
    return before, after


def _plain(path: str, query: str) -> str:
    parts = [f"{k}={v}" for k, v in parse_qsl(query, keep_blank_values=True) if k not in TRACKING]
    return f"{unquote(path)}?{'&'.join(parts)}" if parts else unquote(path)


def is_trap(path: str) -> bool:
    return path.startswith(TRAPS)
