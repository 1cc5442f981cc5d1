"""A request's turn on its lane: waits for room, for its instant, and for the gap before it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import TracebackType

from trawlnet.engine.lane import INSTANT, Lane
from trawlnet.engine.ports import Clock


class LaneParked(Exception):
    """The lane will not be free for a while: free the worker instead of waiting."""

    def __init__(self, lane: str, until: float) -> None:
        super().__init__(lane)
        self.lane = lane
        self.until = until


class Turn:
    """The turn of one request: waits for room, then for its instant, and records its end."""

    __slots__ = ("_barred_until", "_clock", "_closing", "_common", "_lane", "_name", "_patience")

    def __init__(
        self,
        name: str,
        lane: Lane,
        clock: Clock,
        patience: float,
        barred_until: Callable[[], float] = lambda: 0.0,
        closing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name = name
        self._lane = lane
        self._common: Lane | None = None
        self._clock = clock
        self._patience = patience
        self._barred_until = barred_until
        self._closing = closing

    async def __aenter__(self) -> Turn:
        lane, now = self._lane, self._clock.now()
        if not lane.enters(now):
            await self._enter(lane)
            now = self._clock.now()
        # Always after the lane's own turn, so that no two turns wait for each other.
        if (common := lane.common) is not None:
            if common.enters(now):
                self._common = common
            else:
                await self._enter_common(common)
        try:
            self._refuse_if_barred()
        except LaneParked:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def leave(self) -> None:
        """Call this when the connection is established, immediately before the first byte.
        Connecting takes a varying time: without a second check, two requests that started well
        apart could reach the host together."""
        lane, common, now = self._lane, self._common, self._clock.now()
        if lane.may_leave(now) and (common is None or common.may_leave(now)):
            self._refuse_if_barred()
            lane.left(now)
            if common is not None:
                common.left(now)
            return
        async with lane.leaving:
            if common is None:
                await self._leave(lane)
            else:
                async with common.leaving:
                    await self._leave(lane, common)

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

    async def _leave(self, *lanes: Lane) -> None:
        while (wait := max([lane.leaves_at() for lane in lanes]) - self._clock.now()) > INSTANT:
            await self._nap(wait)
        # Checked last, after the waits above, so that the request is allowed now.
        self._refuse_if_barred()
        for lane in lanes:
            lane.left(self._clock.now())

    async def _enter_common(self, common: Lane) -> None:
        lane = self._lane
        try:
            await self._enter(common)
        except BaseException:
            lane.ended(-math.inf)
            raise
        self._common = common
        # The request leaves now, later than the lane alone would have allowed.
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
            await self._nap(max(when - self._clock.now(), INSTANT))
            self._refuse_if_parked(lane)

    async def _nap(self, wait: float) -> None:
        """Sleep a part of a wait, so that a drained crawl does not wait out a long gap."""
        if self._closing():
            raise LaneParked(self._name, self._clock.now() + wait)
        await self._clock.sleep(min(wait, _LONGEST_NAP))

    def _refuse_if_barred(self) -> None:
        if (until := self._barred_until()) and until > self._clock.now():
            raise LaneParked(self._name, until)

    def _refuse_if_parked(self, lane: Lane) -> None:
        if lane.parked > self._clock.now() + self._patience:
            raise LaneParked(self._name, lane.parked)


_LONGEST_NAP = 0.5  # Seconds until a waiting turn notices that the crawl is being drained.
