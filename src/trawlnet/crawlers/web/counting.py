"""A sink that writes figures beside what it passes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from trawlnet.captures.capture import Capture
from trawlnet.captures.counters import CounterCsv
from trawlnet.engine.ports import Clock, Counts, Sink
from trawlnet.engine.task import Task
from trawlnet.observe.metrics.web import WebMeter


class CountingSink:
    """Rows of a metrics CSV, no more often than its interval, and once at the end; and figures
    for whoever scrapes them."""

    def __init__(
        self,
        sink: Sink,
        csv: CounterCsv,
        clock: Clock,
        figures: Callable[[Counts], Mapping[str, float]],
        counts: Callable[[], Awaitable[Counts]],
        meter: WebMeter,
        on_flush: Callable[[], None] = lambda: None,
    ) -> None:
        self._sink = sink
        self._csv = csv
        self._clock = clock
        self._figures = figures
        self._counts = counts
        self._meter = meter
        self._on_flush = on_flush

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        await self._sink.write(batch)
        for _, captures in batch:
            self._measure(captures)
        if self._csv.due(self._clock.now()):
            await self.flush()

    def _measure(self, captures: Sequence[Capture]) -> None:
        for capture in captures:
            if capture.stored:
                self._meter.stored(capture.page_type, len(capture.body or b""))
            elif capture.http_status == 304:
                self._meter.unchanged()

    async def flush(self) -> None:
        self._csv.write(self._clock.now(), self._figures(await self._counts()))
        self._on_flush()
