"""The state of one lane: when the next request may start and leave, and how many are in flight."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import NamedTuple

from trawlnet.engine.rules import WELL, LanePace, Manners


class LaneState:
    """One lane, for display."""

    __slots__ = ("failures", "in_flight", "lane", "last_failure", "parked", "rate", "why")

    def __init__(
        self,
        lane: str,
        rate: float,
        in_flight: int,
        parked: float,
        failures: int,
        why: str,
        last_failure: str = "",
    ) -> None:
        self.lane = lane
        self.rate = rate
        self.in_flight = in_flight
        self.parked = parked
        self.failures = failures
        self.why = why
        self.last_failure = last_failure


class LaneColumns(NamedTuple):
    """Lanes for display, one list for each figure, which avoids an object for each lane."""

    lane: list[str]
    rate: list[float]
    in_flight: list[int]
    parked: list[float]
    failures: list[int]
    why: list[str]
    last_failure: list[str]


class Lane:
    """The state of one lane: a token bucket stored as one instant, and its requests in flight."""

    __slots__ = (
        "book",
        "burst_seconds",
        "common",
        "concurrency",
        "gone",
        "in_flight",
        "interval",
        "last_failure",
        "last_left",
        "last_start",
        "leaving",
        "manners",
        "members",
        "pace",
        "parked",
        "promised",
        "waiters",
        "why",
    )

    def __init__(self, manners: Manners) -> None:
        self.book = -math.inf  # When the bucket is full again if nothing more starts.
        self.gone = -math.inf  # The same, counted by requests that left, which is later.
        self.last_start = self.last_left = -math.inf
        self.interval = 0.0
        self.fare(manners, WELL, 0.0)
        self.leaving = asyncio.Lock()  # Requests leave one at a time, in order.
        self.in_flight = 0
        self.promised = 0  # Turns that started tasks have not asked for yet.
        self.parked = 0.0
        self.why = ""
        self.last_failure = ""
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.common: Lane | None = None
        self.members = 0  # Lanes that share this one.

    @property
    def with_common(self) -> tuple[Lane, ...]:
        return (self,) if self.common is None else (self, self.common)

    def join(self, common: Lane | None) -> None:
        if self.common is not None:
            self.common.members -= 1
            self.common.promised = max(0, self.common.promised - self.promised)
        self.common = common
        if common is not None:
            common.members += 1
            common.promised += self.promised

    def fare(self, manners: Manners, pace: LanePace, now: float) -> None:
        """Set manners and pace, and compute the interval: each request reads it several times, and
        it seldom changes."""
        before = self.interval
        self.manners = manners
        self.pace = pace
        rate = pace.rate(manners)
        self.interval = 1.0 / rate if rate > 0.0 else math.inf  # Seconds between two starts.
        # How far before its book the lane may start.
        self.burst_seconds = (manners.burst - 1) * self.interval if manners.burst > 1 else 0.0
        self.concurrency = pace.concurrency(manners)
        if self.interval != before and 0.0 < before < math.inf > self.interval:
            # Missing tokens stay missing, and refill at the new rate: a slower lane must not
            # start more at once, and a recovered lane must not wait long.
            share = self.interval / before
            self.book = now + (self.book - now) * share if self.book > now else self.book
            self.gone = now + (self.gone - now) * share if self.gone > now else self.gone

    def treat(self, manners: Manners, now: float) -> None:
        before = self.interval
        self.fare(manners, self.pace, now)
        if self.interval > before:
            # The longer gap already counts from the last request.
            empty = manners.burst * self.interval
            self.book = max(self.book, self.last_start + empty)
            self.gone = max(self.gone, self.last_left + empty)

    def ready_at(self, now: float) -> float:
        start = self.next_start()
        if self.promised and (interval := self.interval) > 0.0:
            # Promised requests start from now on, not in the past.
            start = max(start, now - (self.manners.burst - 1) * interval)
            start += self.promised * interval
        return max(start, self.parked)

    def allowance(self, now: float) -> int:
        if self.parked > now:
            return 0
        return max(0, self.starts_by(now) - self.promised)

    def next_start(self) -> float:
        return self.book - self.burst_seconds

    def starts_by(self, now: float) -> int:
        interval = self.interval
        if interval == 0.0:
            return _UNBOUNDED
        start = max(self.next_start(), now - (self.manners.burst - 1) * interval)
        return max(0, math.floor((now - start) / interval + _ROUNDING) + 1)

    def enters(self, now: float) -> bool:
        """Start at once if there is room and the instant has come; returns whether it did."""
        if self.in_flight >= self.concurrency or self.start(now):
            return False
        self.in_flight += 1
        return True

    def start(self, now: float) -> float:
        """Start now if that is allowed; returns the instant to try again at, 0 if it started."""
        when = max(self.next_start(), self.parked)
        if when > now + INSTANT:
            return when
        if self.promised:
            self.promised -= 1
        # From the actual start, not the planned one: a late start delays the next one.
        self.book = max(self.book, now) + self.interval
        self.last_start = now
        return 0.0

    def leaves_at(self) -> float:
        return self.gone - self.burst_seconds

    def may_leave(self, now: float) -> bool:
        """Whether a request may leave now, and none waits to leave before it."""
        return not self.leaving.locked() and self.leaves_at() <= now + INSTANT

    def left(self, now: float) -> None:
        self.gone = max(self.gone, now) + self.interval
        self.last_left = now

    def ended(self, now: float) -> None:
        self.in_flight -= 1
        if self.manners.gap_from_end and now + self.interval > self.book:
            self.book = now + self.interval
            self.last_start = now
        if self.waiters:
            self.pass_on()

    def pass_on(self) -> None:
        """Wake the next request that waits for room."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break

    def awaits_probe(self, now: float) -> bool:
        return self.pace.suspended(self.manners) and now < self.parked < math.inf

    def idle(self, usual: Manners, now: float) -> bool:
        return (
            self.in_flight == 0
            and not self.waiters
            and not self.promised
            and self.parked <= now
            and max(self.book, self.gone) <= now
            and self.pace == WELL
            and self.manners == usual
        )

    def snapshot(self, name: str) -> LaneState:
        rate = self.pace.rate(self.manners)
        return LaneState(
            name,
            rate,
            self.in_flight,
            self.parked,
            self.pace.failures,
            self.why,
            self.last_failure,
        )


_UNBOUNDED = 1 << 30
_ROUNDING = 1e-9  # Seconds; a start within this of its instant is due.
INSTANT = 1e-6  # Seconds; Unix time as a float does not tell shorter ones apart.
