"""The figures of the repos crawler under the names that its users know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.observe import metrics as names
from trawlnet.observe.metrics import DURATION_BUCKETS, Metrics, StatusClass

_RECORD_BUCKETS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
_COLLECTION_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 1_000)
_BYTE_BUCKETS = tuple(4**n << 10 for n in range(10))  # 1 KB to 256 MB.
_PAGE_BUCKETS = (0, 1, 10, 100, 1_000, 10_000, 50_000, 100_000, 1_000_000)
_KNOWN_STATUSES = frozenset(map(int, HTTPStatus))


@dataclass(frozen=True, slots=True)
class Watched:
    """What is read only when somebody asks."""

    gate: Gate
    pdses: Callable[[], int]
    left_out: Mapping[str, int]
    drop_reasons: tuple[str, ...]


class RepoMeter(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self.watched: Watched | None = None
        self._metrics = metrics
        self.yields = metrics.yields
        self.yields |= {"repos": 0, "records": 0, "bytes": 0, "segments": 0}
        self._results: Counter[Reason] = Counter()
        self._statuses: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._dispatched = self._pages = self._finalised = 0
        self._duration = self._histogram(
            metrics, names.REPO_DURATION, "Seconds to fetch and read one repo.", DURATION_BUCKETS
        )
        self._records = self._histogram(
            metrics, names.REPO_RECORDS, "Records per repo.", _RECORD_BUCKETS
        )
        self._collections = self._histogram(
            metrics, names.REPO_COLLECTIONS, "Collections per repo.", _COLLECTION_BUCKETS
        )
        self._bytes = self._histogram(
            metrics, names.REPO_COMPRESSED_BYTES, "Bytes of one repo's block.", _BYTE_BUCKETS
        )
        self._http = self._histogram(
            metrics, names.REPO_HTTP_DURATION, "Seconds that servers took.", DURATION_BUCKETS
        )
        self._page_dids = self._histogram(
            metrics, names.PAGE_DIDS, "DIDs of one page that are to be visited.", _PAGE_BUCKETS
        )
        metrics.registry.register(self)
        metrics.http.listeners.append(self._request_ended)

    def dispatched(self) -> None:
        self._dispatched += 1

    def repo_ended(self, reason: Reason, seconds: float) -> None:
        self._results[reason] += 1
        self._duration.observe(seconds)

    def made(self, records: int, collections: int, size: int, dropped: Mapping[str, int]) -> None:
        self._records.observe(records)
        self._collections.observe(collections)
        self._bytes.observe(size)
        self._dropped.update(dropped)

    def archived(self, records: int, size: int) -> None:
        """It is durable now."""
        self.yields["repos"] += 1
        self.yields["records"] += records
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
        yield _counter(names.REPOS_PROCESSED, "Tries at repos by result.", "result", results)
        yield _counter(
            names.REPO_HTTP_REQUESTS, "Requests by status.", "status_code", self._statuses
        )
        yield _plain(names.SEGMENTS_FINALIZED, "Segment files done.", self._finalised)
        yield _plain(names.BYTES_WRITTEN, "Bytes of blocks on disk.", self.yields["bytes"])
        yield _plain(names.DIDS_PROCESSED, "Visits that have ended.", sum(self._results.values()))
        yield _plain(names.PAGES_FETCHED, "Pages of DIDs from the source.", self._pages)
        yield _plain(names.DISPATCHED, "Visits begun.", self._dispatched)
        yield _gauge(names.ACTIVE_PDS, "PDSes with work left.", self._metrics.lanes_with_work())
        yield _gauge(names.DISPATCH_REMAINING, "DIDs not begun.", self._metrics.not_begun())
        yield from self._of_watched()

    def _of_watched(self) -> Iterable[Metric]:
        watched = self.watched
        if watched is None:
            return
        blocked = sum(watched.gate.blocked(state.lane) for state in watched.gate.states())
        yield _plain(names.PDS_BLOCKED, "PDSes that failed too often.", blocked)
        yield _gauge(names.PDS_COUNT, "PDSes with accounts.", watched.pdses())
        dropped = {reason: self._dropped[reason] for reason in watched.drop_reasons}
        yield _counter(names.RECORDS_DROPPED, "Records left out, by why.", "reason", dropped)
        yield _counter(
            names.CLAIMS_LEFT_OUT, "DIDs that were named and not visited.", "why", watched.left_out
        )

    def _request_ended(self, status: int | None, seconds: float | None) -> None:
        # A code that nobody has registered is a server's own word, and no label.
        known = status in _KNOWN_STATUSES
        self._statuses[str(status) if known else str(StatusClass.of(status))] += 1
        if seconds is not None:
            self._http.observe(seconds)

    def _histogram(
        self, metrics: Metrics, name: str, text: str, buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=metrics.registry)


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, figure in values.items():
        family.add_metric([value], figure)
    return family


def _plain(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, value: int) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
