"""The gate: no request leaves without a turn, and a turn says when its lane may go."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from types import TracebackType

from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners, Pace, parked_until


class LaneParked(Exception):
    """The lane will not be free for a while: give the worker back instead of waiting."""

    def __init__(self, lane: str, until: float) -> None:
        super().__init__(lane)
        self.lane = lane
        self.until = until


class Gate:
    """Per lane: a rate and, separately, a bound on requests in flight."""

    def __init__(self, clock: Clock, manners: Manners, *, patience: float = 1.0) -> None:
        self._clock = clock
        self._manners = manners
        self._patience = patience  # A worker waits this long at most for a parked lane.
        self._lanes: dict[str, _Lane] = {}
        self._sweep_at = _SWEEP_FLOOR

    def turn(self, lane: str) -> Turn:
        """`async with gate.turn(lane):` around one request, until its body has been read."""
        return Turn(lane, self._lane(lane), self._clock, self._patience)

    def ready_at(self, lane: str) -> float:
        """The earliest instant at which one more request may start; infinity when blocked."""
        state = self._lane(lane)
        now = self._clock.now()
        start = state.next_start()
        if state.promised and (interval := state.interval) > 0.0:
            # Promises not yet redeemed will start from now on, not in the past.
            start = max(start, now - (state.manners.burst - 1) * interval)
            start += state.promised * interval
        return max(start, state.parked)

    def allowance(self, lane: str, now: float) -> int:
        """How many requests may start by `now`, as far as rate and parking are concerned."""
        state = self._lane(lane)
        if state.parked > now:
            return 0
        return max(0, state.starts_by(now) - state.promised)

    def promise(self, lane: str, count: int) -> None:
        """So many tasks have been started and will ask for a turn: count them in already, or the
        same free instant would be given to each of them."""
        self._lane(lane).promised += count

    def promised_at_most(self, lane: str, count: int) -> None:
        """A task ended: no more promises stand than tasks are left."""
        state = self._lane(lane)
        state.promised = min(state.promised, count)

    def room(self, lane: str) -> int:
        """How many requests the lane may have in flight, as it is doing now."""
        return self._lane(lane).concurrency

    def observe(self, lane: str, outcome: Outcome) -> float:
        """Learn from one outcome. Returns until when the lane is parked, 0 if it is not."""
        state = self._lane(lane)
        state.pace = state.pace.after(outcome.reason)
        until = parked_until(state.pace, outcome, state.manners, self._clock.now())
        if until > 0.0:
            state.parked = max(state.parked, until)
            state.why = outcome.reason
        return until

    def park(self, lane: str, until: float) -> None:
        """Hold a lane until an instant; infinity blocks it, 0 lets it go with a clean slate."""
        state = self._lane(lane)
        state.parked = until
        if until <= 0.0:
            state.pace = Pace()

    def treat(self, lane: str, manners: Manners) -> None:
        """Give one lane manners of its own (its size, its Crawl-delay)."""
        self._lane(lane).manners = manners

    def retune(self, manners: Manners) -> None:
        """New manners for all lanes, except those that have been given their own."""
        for state in self._lanes.values():
            if state.manners == self._manners:
                state.manners = manners
        self._manners = manners

    def manners(self, lane: str) -> Manners:
        return self._lane(lane).manners

    def blocked(self, lane: str) -> bool:
        state = self._lanes.get(lane)
        return state is not None and state.parked == math.inf

    def states(self) -> list[LaneState]:
        """A snapshot of every lane that is remembered, for people to look at."""
        return [state.snapshot(name) for name, state in self._lanes.items()]

    def _lane(self, lane: str) -> _Lane:
        state = self._lanes.get(lane)
        if state is None:
            if len(self._lanes) >= self._sweep_at:
                self._sweep()
            state = self._lanes[lane] = _Lane(self._manners)
        return state

    def _sweep(self) -> None:
        """Forget lanes about which there is nothing to remember, so that memory is bounded by
        the lanes in use and not by all that were ever seen."""
        now = self._clock.now()
        idle = [name for name, state in self._lanes.items() if state.idle(self._manners, now)]
        for name in idle:
            del self._lanes[name]
        self._sweep_at = max(_SWEEP_FLOOR, 2 * len(self._lanes))


_SWEEP_FLOOR = 4096  # Lanes.


class LaneState:
    """One lane as people see it."""

    __slots__ = ("failures", "in_flight", "lane", "parked", "rate", "why")

    def __init__(
        self, lane: str, rate: float, in_flight: int, parked: float, failures: int, why: str
    ) -> None:
        self.lane = lane
        self.rate = rate
        self.in_flight = in_flight
        self.parked = parked
        self.failures = failures
        self.why = why


class _Lane:
    """The book-keeping of one lane: a token bucket kept as one instant, and who is inside."""

    __slots__ = ("book", "in_flight", "manners", "pace", "parked", "promised", "waiters", "why")

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self.pace = Pace()
        self.book = -math.inf  # When the bucket would be full again, were nothing more to start.
        self.in_flight = 0
        self.promised = 0  # Turns that started tasks will ask for, not yet asked for.
        self.parked = 0.0
        self.why = ""
        self.waiters: deque[asyncio.Future[None]] = deque()

    @property
    def interval(self) -> float:
        rate = self.pace.rate(self.manners)
        return 1.0 / rate if rate > 0.0 else math.inf

    @property
    def concurrency(self) -> int:
        return self.pace.concurrency(self.manners)

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
            and self.book <= now
            and self.pace == Pace()
            and self.manners == usual
        )

    def snapshot(self, name: str) -> LaneState:
        rate = self.pace.rate(self.manners)
        return LaneState(name, rate, self.in_flight, self.parked, self.pace.failures, self.why)


_UNBOUNDED = 1 << 30
_ROUNDING = 1e-9  # A start that is due to within rounding is due.
_INSTANT = 1e-6  # Seconds; Unix time as a float does not tell shorter ones apart.


class Turn:
    """One request's passage: waits for room, then for its instant, and tells when it has ended."""

    __slots__ = ("_clock", "_lane", "_name", "_patience")

    def __init__(self, name: str, lane: _Lane, clock: Clock, patience: float) -> None:
        self._name = name
        self._lane = lane
        self._clock = clock
        self._patience = patience

    async def __aenter__(self) -> None:
        lane = self._lane
        while lane.in_flight >= lane.concurrency:
            await self._wait_for_room()
        lane.in_flight += 1
        try:
            await self._wait_for_start()
        except BaseException:
            lane.ended(-math.inf)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lane.ended(self._clock.now())

    async def _wait_for_room(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._lane.waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._lane.pass_on()
            raise

    async def _wait_for_start(self) -> None:
        self._refuse_if_parked()
        while when := self._lane.start(self._clock.now()):
            await self._clock.sleep(max(when - self._clock.now(), _INSTANT))
            self._refuse_if_parked()

    def _refuse_if_parked(self) -> None:
        if self._lane.parked > self._clock.now() + self._patience:
            raise LaneParked(self._name, self._lane.parked)
