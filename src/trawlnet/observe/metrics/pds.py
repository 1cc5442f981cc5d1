"""The metrics of PDS scans, under the names that their users know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.crawl import CrawlMetrics, StatusClass
from trawlnet.observe.metrics.families import by_label, counter, family, histogram, one_sample

RECORD_STATUSES = ("success", "error", "skipped")
SCAN_STATUSES = ("success", "partial", "put_off", "error")
# At ten requests a minute every scan takes at least a minute, and a user may allow an hour.
_SCAN_BUCKETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
_INDEX_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0)


def show_hosts(metrics: CrawlMetrics, by_status: Mapping[Any, int]) -> None:
    """Show the number of PDSes by status, beside the results of the crawl."""
    for status, count in by_status.items():
        metrics.yields[str(status)] = count
        if not count:
            del metrics.yields[str(status)]


class PdsMeter:
    """Scans call its methods. Collections come as labels from a closed set."""

    def __init__(self, metrics: CrawlMetrics, collections: Iterable[str] = ()) -> None:
        """Series of these collections exist from the start, at 0."""
        registry = metrics.registry
        self._yields = metrics.yields
        self._yields |= {"scans": 0, "records": 0}
        self._durations = histogram(names.PDS_SCAN_DURATION, _SCAN_BUCKETS, registry)
        self._scans = counter(names.PDS_SCANS, registry)
        self._scanned = counter(names.PDS_RECORDS_SCANNED, registry)
        self._indexed = counter(names.PDS_RECORDS_INDEXED, registry)
        self._index_durations = histogram(names.PDS_INDEX_DURATION, _INDEX_BUCKETS, registry)
        for status in SCAN_STATUSES:
            self._scans.labels(status)
            self._durations.labels(status)
        for collection in collections:
            self._scanned.labels(collection)
            self._index_durations.labels(collection)
            for status in RECORD_STATUSES:
                self._indexed.labels(collection, status)

    def scan_ended(self, status: str, seconds: float) -> None:
        self._yields["scans"] += 1
        self._scans.labels(status).inc()
        self._durations.labels(status).observe(seconds)

    def records_scanned(self, collection: str, count: int) -> None:
        self._yields["records"] += count
        self._scanned.labels(collection).inc(count)

    def records_indexed(self, collection: str, status: str, count: int) -> None:
        self._indexed.labels(collection, status).inc(count)

    def index_took(self, collection: str, seconds: float) -> None:
        self._index_durations.labels(collection).observe(seconds)


@dataclass(frozen=True, slots=True)
class LookFigures:
    behind: float | None = None  # Seconds; None before the first message.
    commits: int = 0
    asked: int = 0
    made: int = 0
    waiting: int = 0


class LookMeter(Collector):
    """What a crawl that follows does; only such a crawl has these series."""

    def __init__(self, metrics: CrawlMetrics) -> None:
        self._yields = metrics.yields
        self._figures = LookFigures()
        metrics.registry.register(self)

    def show(self, figures: LookFigures) -> None:
        self._figures = figures
        self._yields |= {"commits": figures.commits, "looks": figures.made}
        if figures.behind is not None:
            self._yields["seconds behind"] = round(figures.behind)

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        if figures.behind is not None:
            yield one_sample(names.PDS_FOLLOW_BEHIND, figures.behind)
        yield one_sample(names.PDS_FOLLOW_COMMITS, figures.commits)
        yield one_sample(names.PDS_LOOKS_ASKED, figures.asked)
        yield one_sample(names.PDS_LOOKS, figures.made)
        yield one_sample(names.PDS_LOOKS_WAITING, figures.waiting)


class RegistryMeter(Collector):
    """Computed at each scrape; routes and results are closed sets."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests: Counter[tuple[str, StatusClass]] = Counter()
        self.registrations: Counter[str] = Counter()
        self.hosts: Mapping[str, int] = {}  # By status, as last read.
        self._registry = registry
        registry.register(self)

    def answered(self, route: str, status: int) -> None:
        self.requests[route, StatusClass.of(status)] += 1

    def registered(self, result: str) -> None:
        self.registrations[result] += 1

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        requests = self.requests.items()
        yield family(
            names.REGISTRY_REQUESTS, {(route, str(word)): n for (route, word), n in requests}
        )
        yield by_label(names.REGISTRATIONS, self.registrations)
        yield by_label(names.REGISTRY_HOSTS, self.hosts)
