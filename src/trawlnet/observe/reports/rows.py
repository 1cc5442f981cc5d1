"""Counts as rows of a picture: the largest first, or every step of a scale in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from trawlnet.observe.history import Sample

Row = tuple[str, float]

SHOWN = 25  # Rows of a list; the rest are one row.
_HOUR, _DAY = 3600, 86_400
_MOST_HOURS = 7 * 24  # More hours are shown as days.
_MOST_STEPS = 3660  # Columns of a chart at most; a wrong clock must not make a million.


def top(counts: Mapping[str, float], shown: int = SHOWN) -> list[Row]:
    """Largest first; equal ones by name, so that two reports of one archive are the same."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = [(name or "(none)", value) for name, value in ordered[:shown]]
    if rest := sum(value for _, value in ordered[shown:]):
        rows.append((f"others, {len(ordered) - shown:,} of them", rest))
    return rows


def by_power(counts: Mapping[int, int]) -> list[Row]:
    """Sizes by their power of 2, including empty ones in between."""
    if not counts:
        return []
    powers = range(min(counts), max(counts) + 1)
    return [(size(1 << power), counts.get(power, 0)) for power in powers]


def by_number(counts: Mapping[int, int]) -> list[Row]:
    if not counts:
        return []
    every = range(min(counts), max(counts) + 1)[:_MOST_STEPS]
    return [(str(n), counts.get(n, 0)) for n in every]


def over_time(hours: Mapping[int, float]) -> tuple[str, list[Row]]:
    """Counts by hour (since 1970) as one row for every hour, or for every day if there are many.
    Also returns the unit."""
    if not hours:
        return "hour", []
    step, word, shape = _HOUR, "hour", "%Y-%m-%d %H:00"
    if max(hours) - min(hours) >= _MOST_HOURS:
        step, word, shape = _DAY, "day", "%Y-%m-%d"
    steps: dict[int, float] = {}
    for hour, value in hours.items():
        at = hour * _HOUR // step
        steps[at] = steps.get(at, 0) + value
    last = max(steps)
    every = range(max(min(steps), last - _MOST_STEPS), last + 1)
    return word, [(_shaped(at * step, shape), steps.get(at, 0)) for at in every]


def grown(history: Sequence[Sample], name: str) -> Mapping[int, float]:
    """The growth of a figure in each hour (since 1970); a new run starts again at 0."""
    hours: Counter[int] = Counter()
    last = 0.0
    for sample in history:
        value = sample.values.get(name, 0.0)
        hours[int(sample.at) // _HOUR] += int(value - last if value >= last else value)
        last = value
    return hours if any(hours.values()) else {}


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def minute(seconds: float) -> str:
    return _shaped(seconds, "%Y-%m-%d %H:%M")


def span(first: float, last: float) -> str:
    """`on 2024-05-01`, or from one day to another."""
    if not last:
        return "never"
    one, other = day(first), day(last)
    return f"on {one}" if one == other else f"from {one} to {other}"


def _shaped(seconds: float, shape: str) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(shape)
