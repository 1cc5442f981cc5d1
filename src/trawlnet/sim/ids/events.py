"""Pauses, outages and leaps that a user adds to a world, each at a time of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trawlnet.sim.ids.model import CounterLeap, TimeSpan, Traffic

_SIZE = re.compile(r"(\d{1,15})([km]?)")
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smh]?)")
_MANY = {"": 1, "k": 1000, "m": 1_000_000}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class WorldEvents:
    """Times are seconds from the moment at which somebody begins to look."""

    gaps: Sequence[CounterLeap] = ()
    pauses: Sequence[TimeSpan] = ()
    outages: Sequence[TimeSpan] = ()

    @property
    def over(self) -> float:
        """When the last of them is over; 0 if there is none."""
        ends = [span.end for span in (*self.pauses, *self.outages)]
        return max([0.0, *ends, *(gap.at for gap in self.gaps)])

    def added_to(self, traffic: Traffic, since: float) -> Traffic:
        """The traffic with these as well; `since` is the world's time at which looking begins."""
        return replace(
            traffic,
            gaps=(*traffic.gaps, *(CounterLeap(since + g.at, g.size) for g in self.gaps)),
            pauses=(*traffic.pauses, *_moved(self.pauses, since)),
            outages=(*traffic.outages, *_moved(self.outages, since)),
        )


def _moved(spans: Sequence[TimeSpan], by: float) -> list[TimeSpan]:
    return [TimeSpan(by + span.start, by + span.end) for span in spans]


def read_gap(text: str) -> CounterLeap:
    """`SIZE@TIME`, as 1m@20m: a million ids, twenty minutes on. Raises ValueError."""
    size, _, at = text.lower().partition("@")
    found = _SIZE.fullmatch(size)
    if found is None or int(found[1]) == 0:
        raise ValueError(f"expected SIZE@TIME such as 1m@20m, got {text!r}")
    return CounterLeap(_seconds(at, text, "SIZE@TIME such as 1m@20m"), _size(found))


def read_span(text: str) -> TimeSpan:
    """`LENGTH@TIME`, as 30m@20m: half an hour, from twenty minutes on. Raises ValueError."""
    length, _, at = text.lower().partition("@")
    wanted = "LENGTH@TIME such as 30m@20m"
    start, lasts = _seconds(at, text, wanted), _seconds(length, text, wanted)
    if lasts == 0.0:
        raise ValueError(f"expected {wanted}, got {text!r}")
    return TimeSpan(start, start + lasts)


def _size(found: re.Match[str]) -> int:
    return int(found[1]) * _MANY[found[2]]


def _seconds(word: str, text: str, wanted: str) -> float:
    found = _TIME.fullmatch(word)
    if found is None:
        raise ValueError(f"expected {wanted}, got {text!r}")
    return float(found[1]) * _SECONDS[found[2]]
