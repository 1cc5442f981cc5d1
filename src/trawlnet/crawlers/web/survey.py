"""Counts the captures of a web crawl for its report, in one pass over the capture log.

Memory does not grow with the crawl: names from servers are counted up to a limit, the most frequent
link targets with a bounded error, and repeated contents are found by a filter.
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
    pages: int = 0  # URLs, approximately: the index of a running crawl is behind.
    stored: int = 0  # Captures with a stored body.
    unchanged: int = 0
    redirects: int = 0
    links: int = 0
    bytes_fetched: int = 0  # Of stored bodies, inflated, counted each time.
    bytes_repeated: int = 0  # The part of them that repeats earlier contents.
    latency_ms: float = 0.0  # The sum over all captures.
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
    """May run beside a crawl: an incomplete last line is skipped."""
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
    """The same for the archive of a fleet."""
    seen, met, sizes = WebSurvey(), _SurveySeen(), objects.sizes(LOGS)
    for listed in manifest_of(objects):
        for line in archived_lines(objects, listed):
            _add(seen, met, line)
            _add_links(seen, [link.to for link in line.links])
        progress(sizes.get(listed.log, 0))
    return seen


def log_bytes(workspace: Path) -> int:
    """The number of bytes to read; 0 if nothing was captured."""
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
    """Count many links at once: a call for each would be most of a report's time."""
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
    """The host of a request URL, which always has three slashes."""
    parts = url.split("/", 3)
    return parts[2] if len(parts) > 2 else url


class Frequent:
    """Counts the most frequent words: exactly while there are few. Then the rarest ones are dropped
    from time to time, and count from one if they occur again."""

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
    """Whether a digest was seen before; wrong once in a thousand times, and more often after ten
    million digests."""

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
    """The filters of one survey."""

    def __init__(self) -> None:
        self.urls = Met()
        self.bodies = Met()
