"""The figures of a crawl and of a scrape, under their names in the metrics CSVs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from trawlnet.captures.capture import Capture
from trawlnet.captures.counters import CounterCsv
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock, Counts, Handler, Sink
from trawlnet.engine.task import Task
from trawlnet.observe.metrics.crawl import HttpMeter, StatusClass
from trawlnet.observe.metrics.web import WebMeter

_OF_LINKS = ("links_extracted", "already_seen", "policy_denied", "cap_exceeded")
_OF_PAGES = ("pages_fetched", "pages_saved", "bytes_saved", "not_modified_304", "not_html")


class CountedTries:
    """A handler that counts retries."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.retries = 0

    def __call__(self, task: Task) -> Coroutine[Any, Any, Outcome]:
        self.retries += task.attempt > 0 or task.waits > 0
        return self._handler(task)


def crawler_figures(
    links: Mapping[str, int], pages: Mapping[str, int], counts: Counts
) -> dict[str, int]:
    """Every name is in the first row already, with 0."""
    return {
        **dict.fromkeys(_OF_LINKS, 0),
        **links,
        "urls_fetched": pages.get("pages_fetched", 0),
        "discoveries_written": pages.get("pages_saved", 0),
        "fetch_errors": _failed(counts),
        **_state(counts),
    }


def scraper_figures(pages: Mapping[str, int], counts: Counts) -> dict[str, int]:
    failed = _failed(counts)
    named = {**dict.fromkeys(_OF_PAGES, 0), **pages}
    return {**named, "fetch_fail": failed, "fetch_errors": failed, **_state(counts)}


def request_figures(http: HttpMeter, retries: int) -> dict[str, int]:
    """Counts requests, including robots.txt and sitemaps; "not modified" is a success."""
    requests = http.requests
    good = requests[StatusClass.SUCCESS] + requests[StatusClass.REDIRECT]
    return {
        "requests": requests.total(),
        "successes": good,
        "failures": requests.total() - good,
        "retries": retries,
        "bytes_downloaded": http.wire,
    }


def _failed(counts: Counts) -> int:
    return sum(count for reason, count in counts.attempts.items() if not reason.answer)


def _state(counts: Counts) -> dict[str, int]:
    return {"frontier_size": counts.open, "seen_count": counts.known}


class CountingSink:
    """Writes rows of a metrics CSV, at its interval and at the end, and updates the metrics."""

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
