"""The metrics of the ids crawler, under the names that its users know."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.families import by_label, family, histogram, one_sample

_SAMPLES = 64  # Stored values of one second, which are much alike.


class RecentValues:
    """Quantiles over the last `span` seconds."""

    def __init__(self, span: float) -> None:
        self._span = span
        self._slots: deque[tuple[int, list[float]]] = deque()

    def add(self, now: float, value: float) -> None:
        second = int(now)
        if not self._slots or self._slots[-1][0] < second:
            self._slots.append((second, []))
            self._forget(now)
        if len(kept := self._slots[-1][1]) < _SAMPLES:
            kept.append(value)

    def quantile(self, now: float, share: float) -> float | None:
        """None without values."""
        self._forget(now)
        values = sorted(value for _, kept in self._slots for value in kept)
        return values[min(len(values) - 1, int(share * len(values)))] if values else None

    def _forget(self, now: float) -> None:
        while self._slots and self._slots[0][0] < now - self._span:
            self._slots.popleft()


class RecentCounts:
    """Counts events by kind over the last `span` seconds."""

    def __init__(self, span: float) -> None:
        self._span = span
        self._slots: deque[tuple[int, Counter[Hashable]]] = deque()

    def add(self, now: float, what: Hashable) -> None:
        second = int(now)
        if not self._slots or self._slots[-1][0] < second:
            self._slots.append((second, Counter()))
            while self._slots[0][0] < now - self._span:
                self._slots.popleft()
        self._slots[-1][1][what] += 1

    def counts(self, now: float, span: float | None = None) -> Counter[Hashable]:
        since = now - min(span or self._span, self._span)
        total: Counter[Hashable] = Counter()
        for second, counts in self._slots:
            if second >= since:
                total.update(counts)
        return total


# Dense up to 1800: without buckets between 300 and 1800, any lag there would read as 600.
LAG_BUCKETS = (
    *(5, 10, 15, 20, 25, 30, 35, 40, 45, 60, 90, 120, 180, 240, 300, 360, 420, 480, 540, 600, 720),
    *(900, 1200, 1500, 1800, 3600, 7200, 14400, 21600, 28800, 43200, 57600, 72000, 86400),
    *(172800, 259200),
)
REQUEST_BUCKETS_MS = (10, 20, 50, 100, 150, 200, 250, 300, 500, 750, 1000, 1500, 2000, 5000)

# The numbers of results in users' dashboards; 7 and 8 are no longer used.
STATUSES: Mapping[str, int] = {
    "stored": 1,
    "filtered": 2,
    "not_found": 3,
    "disabled": 4,
    "embargoed": 5,
    "malformed": 6,
    "failed": 9,
    "throttled": 10,
}
_FOUND = ("stored", "filtered")
_ERRORS = ("malformed", "failed", "throttled")
_MOST_ATTEMPTS = 10  # The largest value of the label; more attempts count as this.
_LAG_WINDOW = 120.0
_COUNT_WINDOW = 240.0
_P20 = 0.2


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A finished request."""

    verdict: str
    word: str  # The API's status word, from a closed set.
    purpose: str
    attempt: int  # Earlier requests for this id.
    took: float
    lag: float | None


@dataclass(frozen=True, slots=True)
class LedgerFigures:
    """Figures that are computed at each scrape."""

    workers: int = 0
    watermark: int = 0
    beyond: int = 0
    lengths: Mapping[str, int] | None = None
    newest_age: float | None = None  # Seconds; None while no id is known.


_SURVEY = "survey"  # Most of these find nothing, which is normal.


class IdsMeter(Collector):
    """The same figures feed Prometheus, `status` and the alerts."""

    def __init__(self, metrics: CrawlMetrics) -> None:
        self.standing: Callable[[], LedgerFigures] = LedgerFigures
        self.yields = metrics.yields
        self.figures = metrics.figures  # For display; the controller fills them.
        self.yields |= {"stored": 0}
        self.verdicts: Counter[str] = Counter()
        # Every result has a series from the start, so that a share of nothing is 0, not unknown.
        first_tries = {(str(number), "1"): 0 for number in STATUSES.values()}
        self._summary: Counter[tuple[str, str]] = Counter(first_tries)
        self._purposes: Counter[tuple[str, str]] = Counter()
        self._lags = RecentValues(_LAG_WINDOW)
        self._recent = RecentCounts(_COUNT_WINDOW)
        self._lag = histogram(names.IDS_LAG, LAG_BUCKETS, metrics.registry)
        self._request = histogram(names.IDS_REQUEST, REQUEST_BUCKETS_MS, metrics.registry)
        # Creating the child of a histogram costs more than using it.
        self._lag_children: dict[tuple[str, str], Histogram] = {}
        self._request_children: dict[str, Histogram] = {}
        metrics.registry.register(self)

    def answered(self, asked: EndedRequest, now: float) -> None:
        self.verdicts[asked.verdict] += 1
        if asked.purpose != _SURVEY:
            self._recent.add(now, asked.verdict)
        self._purposes[(asked.purpose, asked.verdict)] += 1
        child = self._request_children.get(asked.word)
        if child is None:
            child = self._request_children[asked.word] = self._request.labels(asked.word)
        child.observe(asked.took * 1000.0)
        labels = (str(STATUSES[asked.verdict]), str(min(asked.attempt + 1, _MOST_ATTEMPTS)))
        self._summary[labels] += 1
        # Only existing ids have a lag: counting an outage as 0 would look like being on time.
        if asked.lag is not None and asked.lag >= 0.0:
            self._lags.add(now, asked.lag)
            lag = self._lag_children.get(labels)
            if lag is None:
                lag = self._lag_children[labels] = self._lag.labels(*labels)
            lag.observe(asked.lag)

    def published(self, found: int) -> None:
        """These items are durable now."""
        self.yields["stored"] += found

    def lag_p20(self, now: float) -> float | None:
        return self._lags.quantile(now, _P20)

    def fractions(self, now: float, span: float = _COUNT_WINDOW) -> Mapping[str, float]:
        """The shares of not-found answers and of errors among all requests, their number, and ids
        found per second."""
        counts = self._recent.counts(now, span)
        total = sum(counts.values())
        errors = sum(counts[word] for word in _ERRORS)
        return {
            "requests": total,
            "fraction_404": counts["not_found"] / total if total else 0.0,
            "error_fraction": errors / total if total else 0.0,
            "rate": sum(counts[word] for word in _FOUND) / span,
            "count_404": counts["not_found"],
        }

    def collect(self) -> Iterable[Metric]:
        # Users' dashboards have this name without the suffix that a counter would get.
        yield family(names.IDS_STATUS, self._summary)
        yield family(names.IDS_ASKS, self._purposes)
        standing = self.standing()
        yield one_sample(names.IDS_WORKERS, standing.workers)
        yield one_sample(names.IDS_WATERMARK, standing.watermark)
        yield one_sample(names.IDS_BEYOND, standing.beyond)
        if standing.newest_age is not None:
            yield one_sample(names.IDS_NEWEST_AGE, standing.newest_age)
        yield by_label(names.IDS_MARKS, standing.lengths or {})


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The figures of `ids store`."""

    stored: int
    put_aside: int
    depth: int  # Waiting messages.
    behind: float  # The longest wait of a message, in seconds.


class StoreMeter(Collector):
    def __init__(self, figures: Callable[[], StoreFigures]) -> None:
        self._figures = figures
        self._registry = CollectorRegistry()
        self._registry.register(self)

    async def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        figures = self._figures()
        yield one_sample(names.IDS_STORE_STORED, figures.stored)
        yield one_sample(names.IDS_STORE_PUT_ASIDE, figures.put_aside)
        yield one_sample(names.IDS_STORE_DEPTH, figures.depth)
        yield one_sample(names.IDS_STORE_BEHIND, figures.behind)
