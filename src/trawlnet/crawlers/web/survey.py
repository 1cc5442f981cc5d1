"""Look over what a web crawl has captured, for its report: one pass over the capture log.

Memory does not grow with the crawl: words of strangers are counted up to a bound, the most
frequent link targets are kept with a bounded error, and what was met before is known by a filter.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from trawlnet.captures.line import CaptureLine, Glance
from trawlnet.captures.log import BEGINNING, files_of, read_glances
from trawlnet.captures.page import digest_of
from trawlnet.captures.role import ROLES
from trawlnet.captures.shared_archive import LOGS, archived_lines, manifest_of
from trawlnet.storage.objects import Objects

OTHERS = "(others)"
_MOST_WORDS = 50_000
_MOST_DEPTH = 1000
_HOUR = 3600


@dataclass(slots=True)
class WebSurvey:
    captures: int = 0
    pages: int = 0  # URLs, about: the index of a crawl that runs is behind.
    stored: int = 0  # Of these, with a body that is kept.
    unchanged: int = 0
    redirects: int = 0
    links: int = 0
    bytes_fetched: int = 0  # Of stored bodies, inflated, each time they came.
    bytes_repeated: int = 0  # Of these, contents that were there before.
    latency_ms: float = 0.0  # Of all captures together.
    first: float = 0.0
    last: float = 0.0
    hosts: Counter[str] = field(default_factory=Counter)
    bytes_by_host: Counter[str] = field(default_factory=Counter)
    page_types: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    content_types: Counter[str] = field(default_factory=Counter)
    depths: Counter[int] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)  # By the power of 2 of the bytes.
    hours: Counter[int] = field(default_factory=Counter)  # Since 1970.
    linked_hosts: Counter[str] = field(default_factory=Counter)
    linked_pages: Frequent = field(default_factory=lambda: Frequent())


def survey_captures(workspace: Path, progress: Callable[[int], None]) -> WebSurvey:
    """May run beside a crawl: what is not yet a whole line is not looked at."""
    seen, met = WebSurvey(), _SurveySeen()
    for role in ROLES:
        at = BEGINNING
        for lines, end in read_glances(workspace / role.log):
            for line in lines:
                _add(seen, met, line)
            _add_links(seen, [link.to for line in lines for link in line.links])
            progress(end.offset - (at.offset if end.segment == at.segment else 0))
            at = end
    return seen


def survey_archive(objects: Objects, progress: Callable[[int], None]) -> WebSurvey:
    """The same of what a fleet has listed."""
    seen, met, sizes = WebSurvey(), _SurveySeen(), objects.sizes(LOGS)
    for listed in manifest_of(objects):
        for line in archived_lines(objects, listed):
            _add(seen, met, line)
            _add_links(seen, [link.to for link in line.links])
        progress(sizes.get(listed.log, 0))
    return seen


def log_bytes(workspace: Path) -> int:
    """How much there is to read; 0 for a crawl that has captured nothing."""
    logs = [files_of(workspace / role.log) for role in ROLES]
    return sum(log.segment(number).stat().st_size for log in logs for number in log.numbers())


def _add(seen: WebSurvey, met: _SurveySeen, line: Glance | CaptureLine) -> None:
    host = _host(line.url)
    seen.captures += 1
    seen.pages += not met.urls.again(digest_of(line.url))
    seen.latency_ms += line.fetch_latency_ms
    seen.first = min(seen.first or line.timestamp, line.timestamp)
    seen.last = max(seen.last, line.timestamp)
    seen.hours[int(line.timestamp) // _HOUR] += 1
    seen.statuses[str(line.http_status)] += 1
    seen.page_types[line.page_type or "(none)"] += 1
    seen.depths[min(line.depth, _MOST_DEPTH)] += 1
    _count(seen.hosts, host)
    _count(seen.content_types, line.content_type.partition(";")[0].strip().lower() or "(none)")
    seen.unchanged += line.http_status == 304
    seen.redirects += 300 <= line.http_status < 400 and line.http_status != 304
    if line.stored_path and line.content_bytes:
        _add_body(seen, met, line, host)


def _add_links(seen: WebSurvey, targets: list[str]) -> None:
    """Many at a time: there are dozens to a page, and a call for each would be most of a report."""
    seen.links += len(targets)
    for host, times in Counter(map(_host, targets)).items():
        _count(seen.linked_hosts, host, times)
    seen.linked_pages.add(targets)


def _add_body(seen: WebSurvey, met: _SurveySeen, line: Glance | CaptureLine, host: str) -> None:
    seen.stored += 1
    seen.bytes_fetched += line.content_bytes
    seen.sizes[line.content_bytes.bit_length() - 1] += 1
    _count(seen.bytes_by_host, host, line.content_bytes)
    if met.bodies.again(bytes.fromhex(line.content_sha256)):
        seen.bytes_repeated += line.content_bytes


def _count(counts: Counter[str], word: str, times: int = 1) -> None:
    counts[word if word in counts or len(counts) < _MOST_WORDS else OTHERS] += times


def _host(url: str) -> str:
    """Of a URL that was fetched, or written down as a link to fetch: it has three slashes."""
    parts = url.split("/", 3)
    return parts[2] if len(parts) > 2 else url


class Frequent:
    """The most frequent words, exactly while there are few. Beyond, what has been met least often
    is forgotten now and then, and counts from one if it comes again."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self.counts: Counter[str] = Counter()
        self.forgotten = False

    def add(self, words: Iterable[str]) -> None:
        self.counts.update(words)
        if len(self.counts) >= 2 * self._most:
            by_times = sorted(self.counts.items(), key=itemgetter(1), reverse=True)
            self.counts = Counter(dict(by_times[: self._most]))
            self.forgotten = True


class Met:
    """Whether a digest was met before; once in a thousand times it says so wrongly, from ten
    million digests on more often."""

    _BITS = 27  # 16 MiB.
    _PLACES = (1 << _BITS) - 1
    _PROBES = struct.Struct(">4I")

    def __init__(self) -> None:
        self._filter = bytearray(1 << (self._BITS - 3))

    def again(self, digest: bytes) -> bool:
        known = True
        for word in self._PROBES.unpack_from(digest):
            place, mask = (word & self._PLACES) >> 3, 1 << (word & 7)
            before = self._filter[place]
            if not before & mask:
                known = False
                self._filter[place] = before | mask
        return known


class _SurveySeen:
    """What this survey has met, so far."""

    def __init__(self) -> None:
        self.urls = Met()
        self.bodies = Met()
