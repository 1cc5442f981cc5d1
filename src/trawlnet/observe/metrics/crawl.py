"""The metrics that every crawler has, computed at each scrape."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Parts
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock, Counts, Handler, Sink
from trawlnet.engine.task import Task
from trawlnet.observe.alerts.sender import Alerts, LoggedAlerts
from trawlnet.observe.lanes import LaneCondition, condition
from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.families import LocalHistogram, family

if TYPE_CHECKING:  # Traces know the network; figures do not.
    from trawlnet.observe.traces.wrappers import Ways

# From a cached answer on loopback to a repository of many megabytes over a slow line.
DURATION_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class StatusClass(StrEnum):
    """The result of a request as a label: a server's own text is never a label."""

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
    """Counts requests and bytes; `Http` calls it after each request."""

    def __init__(self) -> None:
        self.requests: Counter[StatusClass] = Counter()
        self.wire = 0
        self.inflated = 0
        # Called with the status, if there was an answer, and the server's time, if it is known.
        self.listeners: list[Callable[[int | None, float | None], None]] = []

    def request_ended(
        self, status: int | None, wire: int, inflated: int, seconds: float | None = None
    ) -> None:
        self.requests[StatusClass.of(status)] += 1
        self.wire += wire
        self.inflated += inflated
        for listener in self.listeners:
            listener(status, seconds)


class CrawlMetrics:
    """The metrics of one run, in a registry of its own: two runs in one process do not mix.

    Values are computed at each scrape; a crawl without scrapes pays only for the stopwatch.
    """

    def __init__(self, crawler: str, clock: Clock) -> None:
        self.crawler = crawler
        self.http = HttpMeter()
        self.sink_bytes = 0
        self.yields: dict[str, int] = {}  # The results of the crawl, for display.
        self.figures: dict[str, float] = {}  # The crawler's own figures, for display.
        self.ways: Ways | None = None  # Traces tasks, if a collector is configured.
        self.alerts: Alerts = LoggedAlerts()  # Receives the alerts.
        self.folder: Path | None = None  # The workspace, whose disk is measured.
        self.registry = CollectorRegistry()
        self._clock = clock
        self._scrape: Scrape | None = None
        self._duration = LocalHistogram(names.TASK_DURATION, [crawler], DURATION_BUCKETS)
        self.registry.register(self._duration)
        ProcessCollector(registry=self.registry)

    def timed(self, handler: Handler) -> TimedHandler:
        return TimedHandler(handler, self._clock, self._duration)

    def weighed(self, sink: Sink) -> MeteredSink:
        return MeteredSink(sink, self)

    def watch(self, parts: Parts[Any], control: Control) -> Scrape:
        """Connect the figures to a crawl about to run; once per `CrawlMetrics`."""
        scrape = self._scrape = Scrape(self, parts, control)
        self.registry.register(scrape)
        return scrape

    def lanes_with_work(self) -> int:
        return self._scrape.control.figures.lanes.with_work() if self._scrape else 0

    def counts(self) -> Counts:
        """The counts of the store at the last scrape."""
        return self._scrape.counts if self._scrape else Counts()

    def not_begun(self) -> int:
        """Open tasks that are not in progress, at the last scrape."""
        return self._scrape.counts.open - self._scrape.counts.leased if self._scrape else 0


class TimedHandler:
    """A handler with a stopwatch, which also lists the running tasks."""

    def __init__(self, handler: Handler, clock: Clock, duration: LocalHistogram) -> None:
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


class MeteredSink:
    """A sink that counts bytes once they are durable."""

    def __init__(self, sink: Sink, metrics: CrawlMetrics) -> None:
        self._sink = sink
        self._metrics = metrics

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        await self._sink.write(batch)
        self._metrics.sink_bytes += sum(
            len(item) for _, items in batch for item in items if isinstance(item, bytes)
        )


class Scrape(Collector):
    """Reads a running crawl and renders it in the Prometheus text format."""

    def __init__(self, metrics: CrawlMetrics, parts: Parts[Any], control: Control) -> None:
        self._metrics = metrics
        self._parts = parts
        self.control = control
        self.counts = Counts()

    async def text(self) -> bytes:
        # The store is asynchronous and the library synchronous, so read the store first.
        self.counts = await self._parts.store.counts()
        return generate_latest(self._metrics.registry)

    def collect(self) -> Iterable[Metric]:
        control, http = self.control, self._metrics.http
        # Attempts and their reasons come from one table, so that they cannot disagree.
        yield self._by(names.ATTEMPTS, _every_reason(control.figures.tally))
        yield self._by(names.SETTLED, _every_reason(control.figures.settled))
        yield self._one(names.FED, control.figures.fed)
        yield self._one(names.OPEN_TASKS, self.counts.open)
        yield self._one(names.BLOCKED_TASKS, self.counts.blocked)
        yield self._one(names.IN_FLIGHT, control.figures.in_flight)
        yield self._one(names.WORKERS, control.workers)
        yield self._one(names.PAUSED, control.paused)
        yield self._by(names.LANES, self._lanes())
        yield self._by(names.HTTP_REQUESTS, {each: http.requests[each] for each in StatusClass})
        yield self._by(names.HTTP_BYTES, {"wire": http.wire, "inflated": http.inflated})
        yield self._one(names.SINK_BYTES, self._metrics.sink_bytes)
        yield self._by(names.DISK_BYTES, self._disk())

    def _lanes(self) -> Mapping[str, int]:
        now = self._parts.clock.now()
        found = Counter(condition(state, now) for state in self._parts.gate.states())
        return {each: found[each] for each in LaneCondition}

    def _disk(self) -> Mapping[str, int]:
        folder = self._metrics.folder
        if folder is None:
            return {}
        try:
            disk = shutil.disk_usage(folder)
        except OSError:
            return {}
        return {"free": disk.free, "size": disk.total}

    def _one(self, name: str, figure: float) -> Metric:
        return family(name, {(self._metrics.crawler,): figure})

    def _by(self, name: str, values: Mapping[str, float]) -> Metric:
        crawler = self._metrics.crawler
        return family(name, {(crawler, str(label)): n for label, n in values.items()})


def _every_reason(counts: Mapping[Reason, int]) -> Mapping[str, int]:
    """Reasons that have not occurred count as 0: a series must exist before it increases."""
    return {reason: counts.get(reason, 0) for reason in Reason}
