"""The metrics of the repos crawler, under the names that its users know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.crawl import DURATION_BUCKETS, CrawlMetrics, StatusClass
from trawlnet.observe.metrics.families import by_label, one_sample, tally

_RECORD_BUCKETS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
_COLLECTION_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 1_000)
_BYTE_BUCKETS = tuple(4**n << 10 for n in range(10))  # 1 KB to 256 MB.
_PAGE_BUCKETS = (0, 1, 10, 100, 1_000, 10_000, 50_000, 100_000, 1_000_000)
_KNOWN_STATUSES = frozenset(map(int, HTTPStatus))


@dataclass(frozen=True, slots=True)
class RepoGauges:
    """Figures that are computed at each scrape."""

    gate: Gate
    pdses: Callable[[], int]
    left_out: Mapping[str, int]
    drop_reasons: tuple[str, ...]
    in_memory: Callable[[], Mapping[str, int]]  # Bytes by use.


class RepoMeter(Collector):
    def __init__(self, metrics: CrawlMetrics) -> None:
        self.watched: RepoGauges | None = None
        self._metrics = metrics
        self.yields = metrics.yields
        self.yields |= {"repos": 0, "records": 0, "bytes": 0, "segments": 0}
        self._results: Counter[Reason] = Counter()
        self._statuses: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._dispatched = self._pages = self._finalised = self._spilled = 0
        registry = metrics.registry
        self._duration = tally(names.REPO_DURATION, DURATION_BUCKETS, registry)
        self._records = tally(names.REPO_RECORDS, _RECORD_BUCKETS, registry)
        self._collections = tally(names.REPO_COLLECTIONS, _COLLECTION_BUCKETS, registry)
        self._bytes = tally(names.REPO_COMPRESSED_BYTES, _BYTE_BUCKETS, registry)
        self._http = tally(names.REPO_HTTP_DURATION, DURATION_BUCKETS, registry)
        self._page_dids = tally(names.PAGE_DIDS, _PAGE_BUCKETS, registry)
        registry.register(self)
        metrics.http.listeners.append(self._request_ended)

    def dispatched(self) -> None:
        self._dispatched += 1

    def repo_ended(self, reason: Reason, seconds: float) -> None:
        self._results[reason] += 1
        self._duration.observe(seconds)

    def on_packed(
        self, records: int, collections: int, size: int, dropped: Mapping[str, int]
    ) -> None:
        self._records.observe(records)
        self._collections.observe(collections)
        self._bytes.observe(size)
        if dropped:
            self._dropped.update(dropped)

    def spilled(self, size: int) -> None:
        """A body of this size was spilled to disk, because memory was short."""
        self.yields["spilled"] = self.yields.get("spilled", 0) + 1
        self._spilled += size

    def archived(self, records: int, size: int) -> None:
        """A repository is durable now."""
        self.yields["repos"] += 1
        self.yields["records"] += records
        self.yields["bytes"] += size
        self._metrics.sink_bytes += size

    def changed(self, deltas: int, size: int) -> None:
        """So many changes of repositories are durable now. Those count no repository anew."""
        self.yields["deltas"] = self.yields.get("deltas", 0) + deltas
        self.yields["bytes"] += size
        self._metrics.sink_bytes += size

    def segments(self, finalised: int, current: int) -> None:
        self._finalised = finalised
        self.yields["segments"] = current

    def page_fetched(self, dids: int) -> None:
        self._pages += 1
        self._page_dids.observe(dids)

    def collect(self) -> Iterable[Metric]:
        results = {str(reason): self._results[reason] for reason in Reason}
        yield by_label(names.REPOS_PROCESSED, results)
        yield by_label(names.REPO_HTTP_REQUESTS, self._statuses)
        yield one_sample(names.SEGMENTS_FINALIZED, self._finalised)
        yield one_sample(names.BYTES_WRITTEN, self.yields["bytes"])
        yield one_sample(names.DIDS_PROCESSED, sum(self._results.values()))
        yield one_sample(names.PAGES_FETCHED, self._pages)
        yield one_sample(names.DISPATCHED, self._dispatched)
        yield one_sample(names.ACTIVE_PDS, self._metrics.lanes_with_work())
        yield one_sample(names.DISPATCH_REMAINING, self._metrics.not_begun())
        yield one_sample(names.REPOS_SPILLED, self.yields.get("spilled", 0))
        yield one_sample(names.SPILLED_BYTES, self._spilled)
        yield from self._of_watched()

    def _of_watched(self) -> Iterable[Metric]:
        watched = self.watched
        if watched is None:
            return
        blocked = sum(watched.gate.blocked(state.lane) for state in watched.gate.states())
        yield one_sample(names.PDS_BLOCKED, blocked)
        yield one_sample(names.PDS_COUNT, watched.pdses())
        dropped = {reason: self._dropped[reason] for reason in watched.drop_reasons}
        yield by_label(names.RECORDS_DROPPED, dropped)
        yield by_label(names.CLAIMS_LEFT_OUT, watched.left_out)
        yield by_label(names.REPO_MEMORY, watched.in_memory())

    def _request_ended(self, status: int | None, seconds: float | None) -> None:
        # An unregistered code is a server's own text, and must not become a label.
        known = status in _KNOWN_STATUSES
        self._statuses[str(status) if known else str(StatusClass.of(status))] += 1
        if seconds is not None:
            self._http.observe(seconds)
