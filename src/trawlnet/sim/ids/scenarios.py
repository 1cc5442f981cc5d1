"""Named traffic: the situations that a crawler of sequential ids must cope with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trawlnet.sim.ids.model import Cap, CounterLeap, SimEmbargo, TimeSpan, Traffic

# Trouble begins when a crawler that started at 0 has found its pace.
_SETTLED = 1800.0
_MINUTE = 60.0


def scenario(name: str, seed: int, rate: float = 50.0) -> Traffic:
    """The traffic of this name; `scenario_names()` lists them."""
    if name not in _CHANGES:
        raise ValueError(f"no scenario {name!r}; there are {', '.join(_CHANGES)}")
    return _CHANGES[name](Traffic(seed=seed, rate=rate))


def scenario_names() -> list[str]:
    return list(_CHANGES)


def _gap(size: int) -> Callable[[Traffic], Traffic]:
    return lambda plain: replace(plain, gaps=(CounterLeap(_SETTLED, size),))


def _pause(plain: Traffic) -> Traffic:
    """The counter stands still, and goes on where it was."""
    return replace(plain, pauses=(TimeSpan(_SETTLED, _SETTLED + 30 * _MINUTE),))


def _maintenance(plain: Traffic) -> Traffic:
    """The API is off, nothing happens behind it, and then the counter goes on somewhere else."""
    away = TimeSpan(_SETTLED, _SETTLED + 30 * _MINUTE)
    gap = CounterLeap(away.end, round(20_000 * plain.rate))
    return replace(plain, pauses=(away,), outages=(away,), gaps=(gap,))


def _leaps(plain: Traffic) -> Traffic:
    """Several leaps in a row, one of them after a pause."""
    pause = TimeSpan(_SETTLED + 5 * _MINUTE, _SETTLED + 15 * _MINUTE)
    leaps = ((0.0, 1000), (90.0, 20), (180.0, 4000), (15 * _MINUTE, 400))
    gaps = tuple(CounterLeap(_SETTLED + at, round(times * plain.rate)) for at, times in leaps)
    return replace(plain, pauses=(pause,), gaps=gaps)


def _outage(plain: Traffic) -> Traffic:
    return replace(plain, outages=(TimeSpan(_SETTLED, _SETTLED + 20 * _MINUTE),))


def _stall(plain: Traffic) -> Traffic:
    return replace(plain, stalls=(TimeSpan(_SETTLED, _SETTLED + 15 * _MINUTE),))


def _throttle(plain: Traffic) -> Traffic:
    # Below the rate at which ids come, as in the worst hour of a launch day.
    span = TimeSpan(_SETTLED, _SETTLED + 60 * _MINUTE)
    return replace(plain, caps=(Cap(span, 0.9 * plain.rate),))


def _embargo(plain: Traffic) -> Traffic:
    span = TimeSpan(_SETTLED, _SETTLED + 30 * _MINUTE)
    return replace(plain, embargoes=(SimEmbargo(span, _SETTLED + 45 * _MINUTE),))


def _mixed(plain: Traffic) -> Traffic:
    """A bit of everything within a few minutes, for a server that is watched live."""
    return replace(
        plain,
        blemish_share=0.005,
        gaps=(
            CounterLeap(200.0, round(40 * plain.rate)),
            CounterLeap(420.0, round(400 * plain.rate)),
            CounterLeap(720.0, round(100 * plain.rate)),
        ),
        pauses=(TimeSpan(690.0, 720.0),),
        stalls=(TimeSpan(480.0, 510.0),),
        outages=(TimeSpan(540.0, 560.0),),
        caps=(Cap(TimeSpan(580.0, 610.0), 1.2 * plain.rate),),
        embargoes=(SimEmbargo(TimeSpan(100.0, 160.0), 640.0),),
    )


_CHANGES: dict[str, Callable[[Traffic], Traffic]] = {
    "steady": lambda plain: plain,
    "gap_10k": _gap(10_000),
    "gap_50k": _gap(50_000),
    "gap_1m": _gap(1_000_000),
    "gap_5m": _gap(5_000_000),
    "gap_10m": _gap(10_000_000),
    "pause": _pause,
    "maintenance": _maintenance,
    "leaps": _leaps,
    "outage": _outage,
    "stall": _stall,
    "throttle": _throttle,
    "embargo": _embargo,
    "mixed": _mixed,
}
