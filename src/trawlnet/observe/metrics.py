"""Every Prometheus name of the project, and where its figure comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Parts
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock, Counts, Handler, Sink
from trawlnet.engine.task import Task
from trawlnet.observe.lanes import LaneCondition, condition

if TYPE_CHECKING:  # Traces know the network; figures do not.
    from trawlnet.observe.trace import Ways

ATTEMPTS = "trawlnet_attempts"  # The client library adds `_total` to counters.
SETTLED = "trawlnet_settled"
FED = "trawlnet_fed"
OPEN_TASKS = "trawlnet_open_tasks"
IN_FLIGHT = "trawlnet_in_flight"
WORKERS = "trawlnet_workers"
LANES = "trawlnet_lanes"
TASK_DURATION = "trawlnet_task_duration_seconds"
HTTP_REQUESTS = "trawlnet_http_requests"
HTTP_BYTES = "trawlnet_http_bytes"
SINK_BYTES = "trawlnet_sink_bytes"

# Of the repos crawler, as its users know them; observe/repos.py has the figures.
REPOS_PROCESSED = "crawler_repos_processed"
REPO_DURATION = "crawler_repo_duration_seconds"
REPO_RECORDS = "crawler_repo_records"
REPO_COLLECTIONS = "crawler_repo_collections"
REPO_COMPRESSED_BYTES = "crawler_repo_compressed_bytes"
REPO_HTTP_REQUESTS = "crawler_http_requests"
REPO_HTTP_DURATION = "crawler_http_request_duration_seconds"
SEGMENTS_FINALIZED = "crawler_segments_finalized"
BYTES_WRITTEN = "crawler_bytes_written"
DIDS_PROCESSED = "crawler_dids_processed"
PAGES_FETCHED = "crawler_pages_fetched"
PAGE_DIDS = "crawler_page_dids"
PDS_COUNT = "crawler_pds_count"
DISPATCHED = "crawler_dispatched"
DISPATCH_REMAINING = "crawler_dispatch_remaining"
PDS_BLOCKED = "crawler_pds_blocked"
ACTIVE_PDS = "crawler_active_pds"
RECORDS_DROPPED = "crawler_records_dropped"
CLAIMS_LEFT_OUT = "crawler_dids_left_out"

# Of `pds serve`; observe/registry.py has the figures.
REGISTRY_REQUESTS = "trawlnet_registry_requests"
REGISTRATIONS = "trawlnet_registrations"
REGISTRY_HOSTS = "trawlnet_registry_hosts"

# Of the ids crawler, the first four as its users know them; observe/ids.py has the figures.
IDS_LAG = "pgcr_crawl_summary_lag"
IDS_STATUS = "pgcr_crawl_summary_status"
IDS_WORKERS = "atlas_active_workers"
IDS_REQUEST = "get_pgcr_req"
IDS_ASKS = "trawlnet_ids_asks"
IDS_WATERMARK = "trawlnet_ids_watermark"
IDS_BEYOND = "trawlnet_ids_beyond"
IDS_MARKS = "trawlnet_ids_marks"

# Of the pds crawler, as its users know them; observe/pds.py has the figures.
PDS_SCAN_DURATION = "chive_pds_scan_duration_seconds"
PDS_SCANS = "chive_pds_scans"
PDS_RECORDS_SCANNED = "chive_pds_records_scanned"
PDS_RECORDS_INDEXED = "chive_pds_records_indexed"
PDS_INDEX_DURATION = "chive_pds_record_index_duration"

# Of the web crawler; observe/web.py has the figures.
WEB_PAGES = "trawlnet_web_pages"
WEB_BYTES = "trawlnet_web_bytes"
WEB_UNCHANGED = "trawlnet_web_pages_unchanged"
WEB_LINKS = "trawlnet_web_links"
WEB_FRONTIER = "trawlnet_web_frontier_urls"

# From a cached answer on loopback to a repository of many megabytes over a slow line.
DURATION_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class StatusClass(StrEnum):
    """How a request ended, as a label: what a server says is never a label itself."""

    INFORMATIONAL = "1xx"
    SUCCESS = "2xx"
    REDIRECT = "3xx"
    CLIENT_ERROR = "4xx"
    SERVER_ERROR = "5xx"
    NO_ANSWER = "none"

    @classmethod
    def of(cls, status: int | None) -> StatusClass:
        if status is None or not 100 <= status < 600:
            return cls.NO_ANSWER
        return _CLASSES[status // 100 - 1]


_CLASSES = list(StatusClass)


class HttpMeter:
    """Counts what went over the wire; `Http` tells it after each request."""

    def __init__(self) -> None:
        self.requests: Counter[StatusClass] = Counter()
        self.wire = 0
        self.inflated = 0
        # Told the status, if there was an answer, and how long the server took, if that is known.
        self.listeners: list[Callable[[int | None, float | None], None]] = []

    def request_ended(
        self, status: int | None, wire: int, inflated: int, seconds: float | None = None
    ) -> None:
        self.requests[StatusClass.of(status)] += 1
        self.wire += wire
        self.inflated += inflated
        for listener in self.listeners:
            listener(status, seconds)


class Metrics:
    """The figures of one run, in a registry of its own: two runs in one process do not mix.

    Everything is read when somebody asks; a crawl that nobody scrapes pays for the stopwatch only.
    """

    def __init__(self, crawler: str, clock: Clock) -> None:
        self.crawler = crawler
        self.http = HttpMeter()
        self.sink_bytes = 0
        self.yields: dict[str, int] = {}  # What the crawl has brought in, for people to look at.
        self.figures: dict[str, float] = {}  # How it is doing, in a crawler's own terms.
        self.ways: Ways | None = None  # Where tasks are traced, if somebody collects that.
        self.registry = CollectorRegistry()
        self._clock = clock
        self._scrape: Scrape | None = None
        self._duration = Histogram(
            TASK_DURATION,
            "Seconds from lease to outcome of one try.",
            ["crawler"],
            buckets=DURATION_BUCKETS,
            registry=self.registry,
        ).labels(crawler)
        ProcessCollector(registry=self.registry)

    def timed(self, handler: Handler) -> Timed:
        return Timed(handler, self._clock, self._duration)

    def weighed(self, sink: Sink) -> Weighed:
        return Weighed(sink, self)

    def watch(self, parts: Parts, control: Control) -> Scrape:
        """Connect the figures to a crawl about to run; once per `Metrics`."""
        scrape = self._scrape = Scrape(self, parts, control)
        self.registry.register(scrape)
        return scrape

    def lanes_with_work(self) -> int:
        return self._scrape.control.lanes_with_work() if self._scrape else 0

    def counts(self) -> Counts:
        """What the store held at the last scrape."""
        return self._scrape.counts if self._scrape else Counts()

    def not_begun(self) -> int:
        """Open tasks that nobody works on, as of the last scrape."""
        return self._scrape.counts.open - self._scrape.counts.leased if self._scrape else 0


class Timed:
    """A handler with a stopwatch, which also knows what is being worked on now."""

    def __init__(self, handler: Handler, clock: Clock, duration: Histogram) -> None:
        self._handler = handler
        self._clock = clock
        self._duration = duration
        self.running: dict[str, tuple[str, float]] = {}  # Key: its lane, and since when.

    async def __call__(self, task: Task) -> Outcome:
        begun = self._clock.now()
        self.running[task.key] = (task.lane, begun)
        try:
            return await self._handler(task)
        finally:
            self.running.pop(task.key, None)
            self._duration.observe(self._clock.now() - begun)


class Weighed:
    """A sink whose durable bytes are counted, once they are durable."""

    def __init__(self, sink: Sink, metrics: Metrics) -> None:
        self._sink = sink
        self._metrics = metrics

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        await self._sink.write(batch)
        self._metrics.sink_bytes += sum(
            len(item) for _, items in batch for item in items if isinstance(item, bytes)
        )


class Scrape(Collector):
    """Reads a running crawl and renders it in the Prometheus text format."""

    def __init__(self, metrics: Metrics, parts: Parts, control: Control) -> None:
        self._metrics = metrics
        self._parts = parts
        self.control = control
        self.counts = Counts()

    async def text(self) -> bytes:
        # The store answers asynchronously, the library collects synchronously: ask first.
        self.counts = await self._parts.store.counts()
        return generate_latest(self._metrics.registry)

    def collect(self) -> Iterable[Metric]:
        metrics, control, http = self._metrics, self.control, self._metrics.http
        # Attempts and their reasons come from one table, so that they cannot disagree.
        yield self._counter(
            ATTEMPTS,
            "Tries in this run by what they came to.",
            "reason",
            _every_reason(control.tally),
        )
        yield self._counter(
            SETTLED,
            "Keys settled in this run by their last word.",
            "reason",
            _every_reason(control.settled),
        )
        yield self._counter(
            FED, "Tasks that the source added in this run.", None, {"": control.fed}
        )
        yield self._gauge(OPEN_TASKS, "Tasks not settled yet.", None, {"": self.counts.open})
        yield self._gauge(IN_FLIGHT, "Tasks being worked on.", None, {"": control.in_flight})
        yield self._gauge(
            WORKERS, "Tasks that may be worked on at once.", None, {"": control.workers}
        )
        yield self._gauge(LANES, "Lanes in memory by how they are doing.", "state", self._lanes())
        yield self._counter(
            HTTP_REQUESTS,
            "Requests by class of their status.",
            "status_class",
            {each: http.requests[each] for each in StatusClass},
        )
        yield self._counter(
            HTTP_BYTES,
            "Bytes of bodies, as sent and as decoded.",
            "kind",
            {"wire": http.wire, "inflated": http.inflated},
        )
        yield self._counter(
            SINK_BYTES, "Bytes handed to the sink and durable.", None, {"": metrics.sink_bytes}
        )

    def _lanes(self) -> Mapping[str, int]:
        now = self._parts.clock.now()
        found = Counter(condition(state, now) for state in self._parts.gate.states())
        return {each: found[each] for each in LaneCondition}

    def _counter(
        self, name: str, text: str, label: str | None, values: Mapping[str, float]
    ) -> Metric:
        family = CounterMetricFamily(name, text, labels=_labels(label))
        return self._filled(family, label, values)

    def _gauge(
        self, name: str, text: str, label: str | None, values: Mapping[str, float]
    ) -> Metric:
        family = GaugeMetricFamily(name, text, labels=_labels(label))
        return self._filled(family, label, values)

    def _filled(
        self,
        family: CounterMetricFamily | GaugeMetricFamily,
        label: str | None,
        values: Mapping[str, float],
    ) -> Metric:
        for value, figure in values.items():
            family.add_metric([self._metrics.crawler] + ([str(value)] if label else []), figure)
        return family


def _labels(label: str | None) -> list[str]:
    return ["crawler", label] if label else ["crawler"]


def _every_reason(counts: Mapping[Reason, int]) -> Mapping[str, int]:
    """Reasons that have not occurred count as 0: a series must be there before it moves."""
    return {reason: counts.get(reason, 0) for reason in Reason}
