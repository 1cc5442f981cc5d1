"""Traffic of an API that hands out sequential ids: what exists, since when, and what hides it.

Everything about an id follows from the seed and the id, so both a simulator in virtual time and a
server can ask about any of them without keeping a table. Times are seconds since the world began.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

_DAY = 86_400.0


class IdState(StrEnum):
    VISIBLE = "visible"
    PENDING = "pending"  # Handed out, not published yet.
    AHEAD = "ahead"  # Not handed out yet.
    HOLE = "hole"  # Handed out, and never published.
    GAP = "gap"  # Skipped by the counter, for ever.
    EMBARGOED = "embargoed"  # Published, and withheld for now.


@dataclass(frozen=True, slots=True)
class CounterLeap:
    """At this moment the counter jumps."""

    at: float
    size: int


@dataclass(frozen=True, slots=True)
class TimeSpan:
    start: float
    end: float

    def covers(self, t: float) -> bool:
        return self.start <= t < self.end


@dataclass(frozen=True, slots=True)
class Cap:
    """While it lasts, the server refuses what goes beyond so many requests a second."""

    span: TimeSpan
    per_second: float


@dataclass(frozen=True, slots=True)
class SimEmbargo:
    """Raids that end within the span are withheld until it opens."""

    span: TimeSpan
    opens: float


@dataclass(frozen=True)
class Traffic:
    seed: int = 0
    first_id: int = 15_000_000_000
    rate: float = 50.0  # Ids a second, on average.
    wave: float = 0.4  # The share by which the rate swings ...
    wave_period: float = _DAY  # ... in so many seconds.
    delay: float = 18.0  # From being handed out to being visible: at least this ...
    delay_spread: float = 6.0  # ... and on average so much more.
    late_share: float = 0.002
    late_spread: float = 60.0
    hole_share: float = 0.0005
    # Some activities had ended long before they got their id.
    old_share: float = 0.001
    old_spread: float = 3600.0
    raid_share: float = 0.05
    blemish_share: float = 0.001  # Ids whose first answer is malformed or not even JSON.
    service_median: float = 0.12  # Seconds that the server takes for an answer (lognormal).
    service_sigma: float = 0.5
    gaps: Sequence[CounterLeap] = ()
    pauses: Sequence[TimeSpan] = ()  # No ids are handed out.
    outages: Sequence[TimeSpan] = ()  # The API is switched off; the world goes on.
    stalls: Sequence[TimeSpan] = ()  # Nothing is published; what is due comes out at the end.
    caps: Sequence[Cap] = ()
    embargoes: Sequence[SimEmbargo] = ()

    def __post_init__(self) -> None:
        if self.rate <= 0.0 or not 0.0 <= self.wave < 1.0:
            raise ValueError("the rate must never stop: above 0, wave from 0 to below 1")

    def rate_at(self, t: float) -> float:
        return self.rate * (1.0 + self.wave * math.sin(2.0 * math.pi * t / self.wave_period))

    def count(self, t: float) -> float:
        """How many ids were handed out by then: the integral of the rate, without the pauses."""
        count = self._flow(t)
        for pause, _, withheld in self._quiet:
            if t > pause.start:
                count -= withheld if t >= pause.end else self._flow(t) - self._flow(pause.start)
        return count

    def _flow(self, t: float) -> float:
        """How many there would be by then if the counter never paused."""
        if t <= 0.0:
            return 0.0
        turn = 2.0 * math.pi / self.wave_period
        return self.rate * (t + self.wave / turn * (1.0 - math.cos(turn * t)))

    @cached_property
    def _quiet(self) -> tuple[_Quiet, ...]:
        """The pauses in order, overlapping ones joined."""
        joined: list[TimeSpan] = []
        for pause in sorted(self.pauses, key=lambda pause: pause.start):
            if joined and pause.start <= joined[-1].end:
                joined[-1] = TimeSpan(joined[-1].start, max(joined[-1].end, pause.end))
            else:
                joined.append(pause)
        made: list[_Quiet] = []
        left_out = 0.0
        for pause in joined:
            withheld = self._flow(pause.end) - self._flow(pause.start)
            made.append(_Quiet(pause, self._flow(pause.start) - left_out, withheld))
            left_out += withheld
        return tuple(made)

    def head(self, t: float) -> int:
        """The newest id that was handed out by then; one below the first when there is none."""
        return self._id(math.floor(self.count(t) + _ROUNDING) - 1)

    def allocated_at(self, i: int) -> float | None:
        """When the id was handed out; None for the ids of a gap and those before the first."""
        ordinal = self._ordinal(i)
        return None if ordinal is None else self._moment(ordinal + 1)

    def visible_at(self, i: int) -> float | None:
        """When the id is first served, outages and embargoes aside; None for never."""
        born = self.allocated_at(i)
        return None if born is None or self.is_hole(i) else self._shown_at(i, born)

    def _shown_at(self, i: int, born: float) -> float:
        shown = born + self.delay + self._spread(i, _Salt.DELAY, self.delay_spread)
        if self._unit(i, _Salt.LATE) < self.late_share:
            shown += self._spread(i, _Salt.LATENESS, self.late_spread)
        for stall in self.stalls:
            if stall.covers(shown):
                # What was held back comes out within a moment, not all at one instant.
                shown = stall.end + self._unit(i, _Salt.BURST)
        return shown

    def completed_at(self, i: int, born: float | None = None) -> float | None:
        """When the activity behind the id ended; quicker if it is known when it was handed out."""
        if born is None:
            born = self.allocated_at(i)
        if born is None or self._unit(i, _Salt.OLD) >= self.old_share:
            return born
        return born - self._spread(i, _Salt.AGE, self.old_spread)

    def state(self, i: int, t: float) -> IdState:
        return self.seen(i, t)[0]

    def seen(self, i: int, t: float) -> tuple[IdState, float | None]:
        """The state, and when the id was handed out if it ever is: that is costly to work out."""
        ordinal = self._ordinal(i)
        if ordinal is None:
            # Until the counter has jumped, nobody can tell a gap from what is still to come.
            jumped = i < self.first_id or self.head(t) >= i
            return IdState.GAP if jumped else IdState.AHEAD, None
        born = self._moment(ordinal + 1)
        if born > t:
            return IdState.AHEAD, born
        if self.is_hole(i):
            return IdState.HOLE, born
        if self._shown_at(i, born) > t:
            return IdState.PENDING, born
        return IdState.EMBARGOED if t < self.opens_at(i) else IdState.VISIBLE, born

    def newest_visible(self, t: float) -> int | None:
        """The highest id that is published: what an API with an anchor would tell."""
        moment = t
        for stall in self.stalls:
            if stall.covers(t):
                moment = stall.start
        newest = self.head(moment - self.delay)
        for i in range(newest, max(self.first_id, newest - _ANCHOR_SEARCH) - 1, -1):
            shown = self.visible_at(i)
            if shown is not None and shown <= t:
                return i
        return None

    def is_hole(self, i: int) -> bool:
        return self._unit(i, _Salt.HOLE) < self.hole_share

    def is_raid(self, i: int) -> bool:
        return self._unit(i, _Salt.RAID) < self.raid_share

    def blemish(self, i: int) -> float | None:
        """None for most; else a number in [0, 1) that tells what is wrong with the first answer."""
        drawn = self._unit(i, _Salt.BLEMISH)
        return drawn / self.blemish_share if drawn < self.blemish_share else None

    def opens_at(self, i: int) -> float:
        """When an embargoed id is let go; minus infinity for those that never were held."""
        if not self.embargoes or not self.is_raid(i):
            return -math.inf
        ended = self.completed_at(i)
        over = [e.opens for e in self.embargoes if ended is not None and e.span.covers(ended)]
        return max(over, default=-math.inf)

    def disabled(self, t: float) -> bool:
        return any(outage.covers(t) for outage in self.outages)

    def cap_at(self, t: float) -> float:
        return min((c.per_second for c in self.caps if c.span.covers(t)), default=math.inf)

    def service_time(self, i: int, request: int) -> float:
        """How long one answer takes; `request` tells apart several for the same id."""
        # The sum of twelve draws is near enough to a normal one, and needs no generator.
        draws = (self._unit(i * 64 + request % 64, _Salt.SERVICE + k) for k in range(12))
        return self.service_median * math.exp(self.service_sigma * (sum(draws) - 6.0))

    def gap_ranges(self) -> list[tuple[int, int]]:
        """Every gap as [start, end) in ids, whether or not the counter has come that far."""
        return [(jump.start, jump.start + jump.size) for jump in self._jumps]

    @cached_property
    def _jumps(self) -> tuple[_Jump, ...]:
        made: list[_Jump] = []
        skipped = 0
        for gap in sorted(self.gaps, key=lambda gap: gap.at):
            ordinal = math.floor(self.count(gap.at) + _ROUNDING)
            made.append(_Jump(ordinal, self.first_id + ordinal + skipped, gap.size))
            skipped += gap.size
        return tuple(made)

    def _id(self, ordinal: int) -> int:
        skipped = sum(jump.size for jump in self._jumps if jump.ordinal <= ordinal)
        return self.first_id + ordinal + skipped

    def _ordinal(self, i: int) -> int | None:
        """The place of an id among those handed out, from 0; None if it never is."""
        if i < self.first_id:
            return None
        passed = bisect_right(self._jumps, i, key=lambda jump: jump.start)
        if passed and i < self._jumps[passed - 1].start + self._jumps[passed - 1].size:
            return None
        return i - self.first_id - sum(jump.size for jump in self._jumps[:passed])

    def _moment(self, ordinal: int) -> float:
        """When so many ids were handed out: the inverse of `count`."""
        number = ordinal + sum(
            quiet.withheld for quiet in self._quiet if quiet.before < ordinal - _ROUNDING
        )
        high = number / self.rate
        low = (
            high - self.wave * self.wave_period / math.pi
        )  # The most that the wave brings forward.
        t = high
        for _ in range(_INVERSE_STEPS):
            over = self._flow(t) - number
            low, high = (low, t) if over > 0.0 else (t, high)
            step = over / self.rate_at(t)
            if abs(step) < max(_INVERSE_GOAL, 4.0 * math.ulp(t)):
                return t - step
            # Where the wave is steep Newton's step may leap out of reach; halving never does.
            t = t - step if low < t - step < high else (low + high) / 2.0
        return t

    def _spread(self, i: int, salt: int, mean: float) -> float:
        return -mean * math.log(1.0 - self._unit(i, salt))

    def _unit(self, i: int, salt: int) -> float:
        """A number in [0, 1) that belongs to this id and this question."""
        x = (i * 0x9E3779B97F4A7C15 + (self.seed * 97 + salt) * 0xD1B54A32D192ED03) & _MASK
        x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) & _MASK
        return ((x ^ x >> 31) >> 11) / _TWO_53


class _Quiet(NamedTuple):
    pause: TimeSpan
    before: float  # How many ids were handed out before it.
    withheld: float  # How many would have been handed out meanwhile.


class _Jump(NamedTuple):
    ordinal: int  # How many ids were handed out before it.
    start: int  # The first id that is skipped.
    size: int


class _Salt:
    DELAY, LATE, LATENESS, BURST, HOLE, OLD, AGE, RAID, BLEMISH = range(9)
    SERVICE = 16


_MASK = (1 << 64) - 1
_TWO_53 = float(1 << 53)
_ROUNDING = 1e-6  # The inverse of the count is good to less than this.
_INVERSE_STEPS = 80
_INVERSE_GOAL = 1e-9
_ANCHOR_SEARCH = 100_000
