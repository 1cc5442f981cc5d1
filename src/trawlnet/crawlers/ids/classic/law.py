"""The classic law: three strategies for workers and period, from the figures of the last period."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

GAP_FRACTION = 0.50
GAP_WORKERS, GAP_PERIOD = 25, 2500
CATCH_UP_FRACTION, CATCH_UP_LAG = 0.001, 600.0
LAG_FLOOR = 20.0
CATCH_UP_POWER, CATCH_UP_LEAST = 0.824, 10_000
BASE_FRACTION = 0.025  # Share of 404s: above it there are too many workers, below it too few.
RETRY_DELAY_MS = 5500
STEP_POWER, STEP_MOST = 0.88, 0.65
SHORT_FRACTION = 0.075
NO_LAG = 900.0  # The value of an unmeasured lag.


class Strategy(StrEnum):
    GAP = "gap_detection"
    CATCH_UP = "catch_up"
    NORMAL = "normal"


@dataclass(frozen=True, slots=True)
class PeriodReading:
    """The counters of the last minutes."""

    fraction_404: float
    p20_lag: float
    pgcr_rate: float  # Existing ids a second.
    count_404: int = 0
    error_fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Setting:
    strategy: Strategy
    workers: int
    period: int  # Ids until the next decision.


def classic_law(
    reading: PeriodReading, workers: int, min_workers: int, max_workers: int
) -> Setting:
    fraction = reading.fraction_404
    if fraction > GAP_FRACTION:
        strategy, wanted, period = Strategy.GAP, float(GAP_WORKERS), float(GAP_PERIOD)
    elif fraction < CATCH_UP_FRACTION or reading.p20_lag >= CATCH_UP_LAG:
        lag = max(reading.p20_lag, LAG_FLOOR)
        strategy, wanted = Strategy.CATCH_UP, math.ceil(workers * (1 + (lag - LAG_FLOOR) / 100))
        room = max(workers, min_workers) * (math.ceil(lag) - LAG_FLOOR)
        period = max(room**CATCH_UP_POWER, CATCH_UP_LEAST)
    else:
        strategy, wanted = Strategy.NORMAL, round(workers * (1 - _step(fraction)))
        period = _normal_period(reading, min(max(wanted, min_workers), max_workers))
    bounded = min(max(int(wanted), min_workers), max_workers)
    return Setting(strategy, bounded, max(1, int(period)))


def _step(fraction: float) -> float:
    """The share of workers to remove; a negative share is added. Exactly at the base, none."""
    over = fraction - BASE_FRACTION
    if over == 0.0:
        return 0.0
    # The delay is in milliseconds, and was divided as an integer.
    size = min((RETRY_DELAY_MS // 8 * abs(over)) ** STEP_POWER / 100, STEP_MOST)
    return math.copysign(size, over)


def _normal_period(reading: PeriodReading, workers: int) -> float:
    if reading.pgcr_rate == 0.0:
        return 600.0 * workers
    return (100.0 if reading.fraction_404 >= SHORT_FRACTION else 300.0) * reading.pgcr_rate
