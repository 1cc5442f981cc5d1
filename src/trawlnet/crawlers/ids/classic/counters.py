"""The counters of the classic law: counts by the second, summed over windows of minutes."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from trawlnet.crawlers.ids.classic.law import NO_LAG, PeriodReading
from trawlnet.crawlers.ids.model import AnswerVerdict

# Fine enough that 301 seconds do not look like 600.
LAG_BUCKETS = (
    5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 75.0, 90.0, 120.0, 180.0,
    240.0, 300.0, 360.0, 420.0, 480.0, 540.0, 600.0, 660.0, 750.0, 900.0, 1200.0, 1800.0, 3600.0,
    7200.0, 14_400.0, 28_800.0, 57_600.0, 86_400.0, 172_800.0, 259_200.0,
)  # fmt: skip
_MINUTE = 60
_LONGEST = 4  # Minutes.
_LAG_WINDOW = 2 * _MINUTE
_KEPT = 2 * _LONGEST * _MINUTE + _MINUTE
_ERRORS = (AnswerVerdict.MALFORMED, AnswerVerdict.FAILED, AnswerVerdict.THROTTLED)
_FOUND = (AnswerVerdict.STORED, AnswerVerdict.FILTERED)
_QUANTILE = 0.20


@dataclass(slots=True)
class _Second:
    at: int
    total: int = 0
    not_found: int = 0
    found: int = 0
    errors: int = 0
    lags: list[int] = field(default_factory=lambda: [0] * (len(LAG_BUCKETS) + 1))


class SecondCounters:
    def __init__(self) -> None:
        self._seconds: deque[_Second] = deque()

    def count(self, now: float, verdict: AnswerVerdict) -> None:
        second = self._second(now)
        second.total += 1
        second.not_found += verdict is AnswerVerdict.NOT_FOUND
        second.found += verdict in _FOUND
        second.errors += verdict in _ERRORS

    def lag(self, now: float, seconds: float) -> None:
        """A negative lag comes from a wrong clock, and is ignored."""
        if seconds >= 0.0:
            self._second(now).lags[bisect_left(LAG_BUCKETS, seconds)] += 1

    def _second(self, now: float) -> _Second:
        at = int(now)
        if not self._seconds or self._seconds[-1].at < at:
            self._seconds.append(_Second(at))
            while self._seconds[0].at < at - _KEPT:
                self._seconds.popleft()
        return self._seconds[-1]

    def reading(self, now: float, elapsed: float) -> PeriodReading:
        """Points a minute apart, each over as many minutes as have passed (one to four), the
        newest weighing most. Lag has a window of its own, of two minutes."""
        minutes = min(_LONGEST, max(1, int(elapsed / _MINUTE)))
        width = minutes * _MINUTE
        ends = [now - k * _MINUTE for k in range(minutes, -1, -1)]
        windows = [self._window(end, width) for end in ends]
        shares = [(w.not_found / w.total if w.total else None) for w in windows]
        errors = [(w.errors / w.total if w.total else None) for w in windows]
        lags = [_quantile(self._window(end, _LAG_WINDOW).lags) for end in ends]
        return PeriodReading(
            fraction_404=_weighted(shares, 0.0),
            p20_lag=_weighted(lags, NO_LAG),
            pgcr_rate=_weighted([w.found / width for w in windows], 0.0),
            count_404=windows[-1].not_found,
            error_fraction=_weighted(errors, 0.0),
        )

    def _window(self, end: float, width: int) -> _Second:
        sums = _Second(int(end))
        for second in self._seconds:
            if end - width < second.at <= end:
                sums.total += second.total
                sums.not_found += second.not_found
                sums.found += second.found
                sums.errors += second.errors
                for k, count in enumerate(second.lags):
                    if count:
                        sums.lags[k] += count
        return sums


def _weighted(points: Iterable[float | None], otherwise: float) -> float:
    """Weights 1, 2, 3, …; a point without a value is skipped."""
    pairs = [(weight, point) for weight, point in enumerate(points, 1) if point is not None]
    total = sum(weight for weight, _ in pairs)
    return sum(weight * point for weight, point in pairs) / total if total else otherwise


def _quantile(buckets: list[int]) -> float | None:
    total = sum(buckets)
    if not total:
        return None
    wanted, below = _QUANTILE * total, 0
    for k, count in enumerate(buckets[:-1]):
        if count and below + count >= wanted:
            low = LAG_BUCKETS[k - 1] if k else 0.0
            return low + (LAG_BUCKETS[k] - low) * (wanted - below) / count
        below += count
    return LAG_BUCKETS[-1]
