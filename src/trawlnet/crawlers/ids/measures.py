"""The measures M1 to M8 of a rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trawlnet.crawlers.ids.model import AnswerVerdict, Purpose
from trawlnet.crawlers.ids.rehearsal import Journal

WARM_UP = 900.0  # Seconds until lag and waste count, so that the law can find its pace.
BIN = 10.0
_MINUTE = 6  # Bins.
_STAYS = 30  # Bins for which the lag must stay low.
_CAUGHT_UP = 60.0
_NOTICED = 60.0  # Seconds; probes begin a moment before there are ids behind the gap.


@dataclass(frozen=True, slots=True)
class Measures:
    m1_catch_up_s: float | None
    m2_lag_p50_s: float | None
    m2_lag_p95_s: float | None
    m3_requests_per_id: float | None
    m3_fraction_404: float | None
    m4_worker_changes: int
    m4_reversals: int
    m5_gap_cross_s: float | None
    m5_gap_requests: int
    m5_survey_requests: int
    m6_lost: int
    m7_throttled: int
    m8_release_s: float | None


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """The series of a plot, in bins of ten seconds."""

    at: list[float]
    lag: list[float | None]
    workers: list[float | None]
    rate: list[float]
    not_found: list[float]


@dataclass(frozen=True, slots=True)
class Moments:
    """The start times of measures."""

    end: float
    since: float  # The end of the last event.
    opened_at: float | None = None  # When ids appeared behind the gap.
    released_at: float | None = None  # When withheld ids were released.


def measure(journal: Journal, moments: Moments) -> Measures:
    opened_at = moments.opened_at
    warm = journal.began + WARM_UP
    lags = sorted(lag for at, lag in journal.lags if at >= warm)
    asked = [verdict for at, _, verdict in journal.requests if at >= warm]
    changes, reversals = _steadiness(journal, warm)
    crossed = None
    if opened_at is not None and journal.behind_at is not None:
        crossed = round(journal.behind_at - opened_at, 1)
    missing = sum(verdict is AnswerVerdict.NOT_FOUND for verdict in asked)
    return Measures(
        m1_catch_up_s=_catch_up(journal, moments.end, moments.since),
        m2_lag_p50_s=round(lags[len(lags) // 2], 2) if lags else None,
        m2_lag_p95_s=round(lags[int(len(lags) * 0.95)], 2) if lags else None,
        m3_requests_per_id=round(len(asked) / len(lags), 4) if lags else None,
        m3_fraction_404=round(missing / len(asked), 4) if asked else None,
        m4_worker_changes=changes,
        m4_reversals=reversals,
        m5_gap_cross_s=crossed,
        m5_gap_requests=_probes(journal, opened_at),
        m5_survey_requests=sum(p is Purpose.SURVEY for _, p, _ in journal.requests),
        m6_lost=0,
        m7_throttled=sum(v is AnswerVerdict.THROTTLED for _, _, v in journal.requests),
        m8_release_s=_release(journal, moments.released_at),
    )


def _release(journal: Journal, released_at: float | None) -> float | None:
    """Seconds from the end of an embargo until all withheld ids were fetched."""
    if released_at is None or not journal.withheld:
        return None
    got = [journal.fetched[i] for i in journal.withheld if i in journal.fetched]
    return round(max(got) - released_at, 1) if len(got) == len(journal.withheld) else None


def _probes(journal: Journal, opened_at: float | None) -> int:
    since = journal.began if opened_at is None else opened_at - _NOTICED
    return sum(purpose is Purpose.PROBE for at, purpose, _ in journal.requests if at >= since)


def _catch_up(journal: Journal, end: float, since: float) -> float | None:
    """Seconds to the first minute whose median lag is low and stays so for five."""
    bins = _binned(journal.lags, since, end)
    low = [_low(bins[k : k + _MINUTE]) for k in range(len(bins) - _MINUTE + 1)]
    run = 0
    for k, good in enumerate(low):
        run = run + 1 if good else 0
        if run >= _STAYS:
            return round((k - _STAYS + 1) * BIN, 1)
    return None


def _low(bins: Sequence[Sequence[float]]) -> bool:
    lags = [lag for one in bins for lag in one]
    return bool(lags) and median(lags) < _CAUGHT_UP


def _binned(points: Sequence[tuple[float, float]], start: float, end: float) -> list[list[float]]:
    bins: list[list[float]] = [[] for _ in range(int((end - start) / BIN))]
    for at, value in points:
        k = int((at - start) / BIN)
        if at >= start and k < len(bins):
            bins[k].append(value)
    return bins


def _steadiness(journal: Journal, warm: float) -> tuple[int, int]:
    """Changes of concurrency, and changes of direction, in samples ten seconds apart."""
    samples = [count for at, count in journal.workers if at >= warm][:: int(BIN)]
    steps = [b - a for a, b in pairwise(samples) if a != b]
    turns = sum((a > 0) != (b > 0) for a, b in pairwise(steps))
    return len(steps), turns


def series(journal: Journal, end: float) -> PlotSeries:
    start = journal.began
    lags = _binned(journal.lags, start, end)
    crews = _binned([(at, float(count)) for at, count in journal.workers], start, end)
    requests = _binned(
        [(at, v is AnswerVerdict.NOT_FOUND) for at, _, v in journal.requests], start, end
    )
    return PlotSeries(
        at=[start + k * BIN for k in range(len(lags))],
        lag=[median(one) if one else None for one in lags],
        workers=[one[-1] if one else None for one in crews],
        rate=[len(one) / BIN for one in requests],
        not_found=[sum(one) / BIN for one in requests],
    )
