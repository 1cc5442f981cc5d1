"""robots.txt as RFC 9309 reads it: the rules for one crawler, matched without regular expressions.

A pattern with many stars makes a regular expression try for ever; here each part is looked for
once, from left to right.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_ROBOTS = 1 << 20  # Bytes read of one file; the RFC asks for 500 KiB at least.
MAX_SITEMAPS = 1000  # Of one file.
_MAX_URL = 2048  # Characters of a sitemap's address.

_DEFAULT = 1  # No rule matched: a rule of no length that allows.


class _Glob(NamedTuple):
    rank: int
    needle: str  # The longest part; a path without it cannot match.
    parts: tuple[str, ...]  # What stands between the stars.
    anchored: bool  # Ended with a dollar sign.

    def matches(self, path: str) -> bool:
        first, *middle, last = self.parts
        if not path.startswith(first):
            return False
        at = len(first)
        for part in middle:
            at = path.find(part, at)
            if at < 0:
                return False
            at += len(part)
        if self.anchored:
            return path.endswith(last) and len(path) - len(last) >= at
        return path.find(last, at) >= 0


class RobotsRules:
    """What one crawler may fetch from one site.

    A rule's rank is twice its length in octets, plus one if it allows: the highest rank that
    matches is the longest rule, and among equals the one that allows; its last bit is the verdict.
    """

    def __init__(
        self,
        ranks: dict[str, int],
        crawl_delay: float | None = None,
        sitemaps: Sequence[str] = (),
    ) -> None:
        self.crawl_delay = crawl_delay  # Seconds.
        self.sitemaps = tuple(sitemaps)
        self._exact: dict[str, int] = {}
        self._globs: list[_Glob] = []
        prefixes: dict[str, int] = {}
        for pattern, rank in ranks.items():
            anchored = pattern.endswith("$")
            parts = tuple(pattern.removesuffix("$").split("*"))
            if len(parts) > 1:
                self._globs.append(_Glob(rank, max(parts, key=len), parts, anchored))
            elif anchored:
                self._exact[parts[0]] = rank
            else:
                prefixes[parts[0]] = rank
        self._globs.sort(reverse=True)
        self._prefixes = sorted(prefixes)
        self._chains = list(_chains(self._prefixes, prefixes))

    def allows(self, target: str) -> bool:
        """Whether this path and query may be fetched."""
        if "%" in target or "*" in target or "$" in target or not target.isascii():
            target = _octets(target, _PATH_ODD)
        best = self._exact.get(target, _DEFAULT)
        at = bisect_right(self._prefixes, target)
        if at:
            for prefix, rank in self._chains[at - 1]:
                if target.startswith(prefix):
                    best = max(best, rank)
                    break
        for glob in self._globs:
            if glob.rank < best:
                break
            if glob.needle in target and glob.matches(target):
                best = glob.rank
                break
        return bool(best & 1) or target == "/robots.txt"


_Chain = tuple[tuple[str, int], ...]


def _chains(ordered: Sequence[str], ranks: dict[str, int]) -> Iterator[_Chain]:
    """For each prefix: itself, then those that it starts with, longest first.

    Of all prefixes that sort before a path, the last one starts with the longest that matches.
    """
    chain: _Chain = ()
    for one in ordered:
        while chain and not one.startswith(chain[0][0]):
            chain = chain[1:]
        chain = ((one, ranks[one]), *chain)
        yield chain


ALLOW_ALL = RobotsRules({})
DENY_ALL = RobotsRules({"/": 2})


def product_token(agent: str) -> str:
    """The name by which robots.txt knows a user agent: `Bot` for `Bot/1.0 (+https://...)`."""
    if agent.startswith("Mozilla/") and (hidden := _COMPATIBLE.search(agent)):
        agent = hidden[1]
    found = _TOKEN.match(agent.strip())
    return found[0].lower() if found else ""


_COMPATIBLE = re.compile(r"compatible;\s*([^\s;/)]+)")
# The RFC knows letters, _ and - only; names with digits exist, and are matched whole.
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def parse_robots(body: bytes, agent: str) -> RobotsRules:
    """The rules for a user agent (its whole text or its product token)."""
    groups = {token: _Group() for token in (product_token(agent), "*")}
    sitemaps = _read(_lines(body), groups)
    # A crawler with a group of its own, even an empty one, does not obey the group `*`.
    mine = next((group for group in groups.values() if group.named), _Group())
    return RobotsRules(mine.ranks, mine.crawl_delay, sitemaps)


class _Group:
    """Everything said to one product token, wherever in the file."""

    def __init__(self) -> None:
        self.named = False
        self.ranks: dict[str, int] = {}
        self.crawl_delay: float | None = None

    def rule(self, pattern: str, allow: int) -> None:
        if pattern[:1] in ("/", "*"):
            pattern = _normal_pattern(pattern)
            rank = 2 * len(pattern) + allow
            self.ranks[pattern] = max(self.ranks.get(pattern, 0), rank)

    def delay(self, text: str) -> None:
        if (seconds := _seconds(text)) is not None:
            self.crawl_delay = max(self.crawl_delay or 0.0, seconds)


def _read(lines: Iterable[tuple[str, str]], groups: dict[str, _Group]) -> list[str]:
    """Fill the groups that somebody asked about; returns the sitemaps.

    Only rules end the list of those whom a group is for: other lines do not matter to it.
    """
    sitemaps: list[str] = []
    current: list[_Group] = []
    naming = False
    for field, value in lines:
        if field == "user-agent":
            if not naming:
                current, naming = [], True
            token = "*" if value.split()[:1] == ["*"] else product_token(value)
            group = groups.get(token)
            if token and group is not None and group not in current:
                group.named = True
                current.append(group)
        elif field in _RULES:
            naming = False
            for group in current:
                group.rule(value, _RULES[field])
        elif field == "crawl-delay":
            for group in current:
                group.delay(value)
        elif field == "sitemap" and len(sitemaps) < MAX_SITEMAPS and 0 < len(value) <= _MAX_URL:
            sitemaps.append(value)
    return sitemaps


_RULES = {"disallow": 0, "allow": 1}


def _lines(body: bytes) -> Iterator[tuple[str, str]]:
    """Field and value of each line that has both."""
    cut = len(body) > MAX_ROBOTS
    lines = _LINE_END.split(_text(body[:MAX_ROBOTS]))
    if cut:
        lines.pop()  # Half a rule would forbid more than the whole one.
    for line in lines:
        field, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield field.strip().lower(), value.strip()


_LINE_END = re.compile(r"\r\n?|\n")
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def _text(body: bytes) -> str:
    """Decode the body; octets that are not UTF-8 stay unchanged, because a rule may name them."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, _KEEP if codec == "utf-8" else "replace")
    head = body[:64]
    if head.count(0) * 4 >= len(head) > 0:  # Text has no zeros, unless in two-octet units.
        return body.decode("utf-16-be" if head[0] == 0 else "utf-16-le", "replace")
    return body.decode("utf-8", _KEEP)


_KEEP = "surrogateescape"


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if seconds >= 0.0 and math.isfinite(seconds) else None


def _normal_pattern(pattern: str) -> str:
    anchor = "$" if pattern.endswith("$") else ""
    return _octets(pattern.removesuffix("$"), _PATTERN_ODD) + anchor


# What is not one way of writing an octet: in a path a star is a star, in a pattern it is not.
_PATH_ODD = re.compile(rb"%([0-9A-Fa-f]{2})|[*$\x80-\xff]")
_PATTERN_ODD = re.compile(rb"%([0-9A-Fa-f]{2})|[$\x80-\xff]")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _octets(text: str, odd: re.Pattern[bytes]) -> str:
    """One way to write each octet, so that comparing text compares octets; %2F is not a slash."""
    raw = text.encode("utf-8", _KEEP if _encodable(text) else "replace")
    return odd.sub(_written, raw).decode("ascii")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8", _KEEP)
    except UnicodeEncodeError:
        return False
    return True


def _written(match: re.Match[bytes]) -> bytes:
    octet = int(match[1], 16) if match[1] else match[0][0]
    return bytes([octet]) if match[1] and octet in _UNRESERVED else b"%%%02X" % octet
