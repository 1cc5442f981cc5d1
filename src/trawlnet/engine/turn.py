"""One lane's book-keeping, and one request's turn on it."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners, Pace


class LaneParked(Exception):
    """The lane will not be free for a while: give the worker back instead of waiting."""

    def __init__(self, lane: str, until: float) -> None:
        super().__init__(lane)
        self.lane = lane
        self.until = until


class LaneState:
    """One lane as people see it."""

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
    """Lanes as people see them, a list for each figure: thousands cost no object each."""

    lane: list[str]
    rate: list[float]
    in_flight: list[int]
    parked: list[float]
    failures: list[int]
    why: list[str]
    last_failure: list[str]


class Lane:
    """The book-keeping of one lane: a token bucket kept as one instant, and who is inside."""

    __slots__ = (
        "book",
        "common",
        "gone",
        "in_flight",
        "last_failure",
        "manners",
        "members",
        "pace",
        "parked",
        "promised",
        "waiters",
        "why",
    )

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self.pace = Pace()
        self.book = -math.inf  # When the bucket would be full again, were nothing more to start.
        self.gone = -math.inf  # The same for what has left, which is later than its start.
        self.in_flight = 0
        self.promised = 0  # Turns that started tasks will ask for, not yet asked for.
        self.parked = 0.0
        self.why = ""
        self.last_failure = ""
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.common: Lane | None = None
        self.members = 0  # Lanes that have this one in common.

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

    @property
    def interval(self) -> float:
        rate = self.pace.rate(self.manners)
        return 1.0 / rate if rate > 0.0 else math.inf

    @property
    def concurrency(self) -> int:
        return self.pace.concurrency(self.manners)

    def treat(self, manners: Manners) -> None:
        before = self.interval
        self.manners = manners
        if self.interval > before:
            # The next gap is a long one already: what was asked last counts, too.
            self.book += self.interval - before
            self.gone += self.interval - before

    def ready_at(self, now: float) -> float:
        start = self.next_start()
        if self.promised and (interval := self.interval) > 0.0:
            # Promises not yet redeemed will start from now on, not in the past.
            start = max(start, now - (self.manners.burst - 1) * interval)
            start += self.promised * interval
        return max(start, self.parked)

    def allowance(self, now: float) -> int:
        if self.parked > now:
            return 0
        return max(0, self.starts_by(now) - self.promised)

    def next_start(self) -> float:
        return self.book - (self.manners.burst - 1) * self.interval

    def starts_by(self, now: float) -> int:
        interval = self.interval
        if interval == 0.0:
            return _UNBOUNDED
        start = max(self.next_start(), now - (self.manners.burst - 1) * interval)
        return max(0, math.floor((now - start) / interval + _ROUNDING) + 1)

    def start(self, now: float) -> float:
        """Start now if that is allowed; returns the instant to come back at, 0 for gone."""
        when = max(self.next_start(), self.parked)
        if when > now + _INSTANT:
            return when
        self.promised = max(0, self.promised - 1)
        # From the actual start, not the planned one: a late riser pushes the next one back.
        self.book = max(self.book, now) + self.interval
        return 0.0

    def leaves_at(self) -> float:
        return self.gone - (self.manners.burst - 1) * self.interval

    def left(self, now: float) -> None:
        self.gone = max(self.gone, now) + self.interval

    def ended(self, now: float) -> None:
        self.in_flight -= 1
        if self.manners.gap_from_end:
            self.book = max(self.book, now + self.interval)
        self.pass_on()

    def pass_on(self) -> None:
        """Let the next one who waits for room look again."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break

    def idle(self, usual: Manners, now: float) -> bool:
        return (
            self.in_flight == 0
            and not self.waiters
            and not self.promised
            and self.parked <= now
            and max(self.book, self.gone) <= now
            and self.pace == Pace()
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
_ROUNDING = 1e-9  # A start that is due to within rounding is due.
_INSTANT = 1e-6  # Seconds; Unix time as a float does not tell shorter ones apart.


class Turn:
    """One request's passage: waits for room, then for its instant, and tells when it has ended."""

    __slots__ = ("_barred_until", "_clock", "_common", "_lane", "_name", "_patience")

    def __init__(
        self,
        name: str,
        lane: Lane,
        clock: Clock,
        patience: float,
        barred_until: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._name = name
        self._lane = lane
        self._common: Lane | None = None
        self._clock = clock
        self._patience = patience
        self._barred_until = barred_until

    async def __aenter__(self) -> Turn:
        await self._enter(self._lane)
        if self._lane.common is not None:
            await self._enter_common(self._lane.common)
        try:
            self._refuse_if_barred()
        except LaneParked:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def leave(self) -> None:
        """To be called when the connection stands, immediately before the first byte. To make one
        takes a while, and not always the same: without a second look two requests that started
        well apart could reach the host together."""
        lanes = (self._lane,) if self._common is None else (self._lane, self._common)
        while (wait := max(lane.leaves_at() for lane in lanes) - self._clock.now()) > _INSTANT:
            await self._clock.sleep(wait)
        # Asked last: however long the waits above took, what leaves is allowed now.
        self._refuse_if_barred()
        for lane in lanes:
            lane.left(self._clock.now())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        now = self._clock.now()
        if self._common is not None:
            self._common.ended(now)
        self._lane.ended(now)

    async def _enter_common(self, common: Lane) -> None:
        """Always after the lane's own, so that no two turns wait for each other."""
        lane = self._lane
        try:
            await self._enter(common)
        except BaseException:
            lane.ended(-math.inf)
            raise
        self._common = common
        # The request goes now, not when the lane alone would have let it.
        lane.book = max(lane.book, self._clock.now() + lane.interval)
        if lane.parked > self._clock.now() + self._patience:
            common.ended(-math.inf)
            lane.ended(-math.inf)
            raise LaneParked(self._name, lane.parked)

    async def _enter(self, lane: Lane) -> None:
        while lane.in_flight >= lane.concurrency:
            await self._wait_for_room(lane)
        lane.in_flight += 1
        try:
            await self._wait_for_start(lane)
        except BaseException:
            lane.ended(-math.inf)
            raise

    async def _wait_for_room(self, lane: Lane) -> None:
        waiter = asyncio.get_running_loop().create_future()
        lane.waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                lane.pass_on()
            raise

    async def _wait_for_start(self, lane: Lane) -> None:
        self._refuse_if_parked(lane)
        while when := lane.start(self._clock.now()):
            await self._clock.sleep(max(when - self._clock.now(), _INSTANT))
            self._refuse_if_parked(lane)

    def _refuse_if_barred(self) -> None:
        if (until := self._barred_until()) > self._clock.now():
            raise LaneParked(self._name, until)

    def _refuse_if_parked(self, lane: Lane) -> None:
        if lane.parked > self._clock.now() + self._patience:
            raise LaneParked(self._name, lane.parked)
