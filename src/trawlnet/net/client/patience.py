"""How long servers are still waited for, over all waits of one request together."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import TracebackType

TICK = 0.001  # Seconds: timers are no finer, and may come that much early.


class Patience:
    """What waits for a server uses some of it up: a connection by itself, whatever else in an
    `async with`."""

    __slots__ = ("_begun", "_timeout", "left", "total")

    def __init__(self, total: float) -> None:
        self.total = total
        self.left = total

    @property
    def spent(self) -> float:
        return self.total - self.left

    def lost(self) -> TimeoutError:
        return TimeoutError(f"no end within {self.total:g} s")

    async def __aenter__(self) -> None:
        self._begun = asyncio.get_running_loop().time()
        self._timeout = asyncio.timeout_at(self._begun + self.left)
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.left -= asyncio.get_running_loop().time() - self._begun
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self.lost() from None


class Alarm:
    """Calls when a wait has gone on for too long. Most do not: one timer that looks again when it
    comes serves all waits of a connection."""

    __slots__ = ("_at", "_call", "_due", "_loop", "_timer")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf  # When the timer comes,
        self._due = math.inf  # and when to call.

    def set(self, due: float) -> None:
        """By the clock of the loop; infinity for a wait that is over."""
        self._due = due
        if due < self._at:
            self.stop()
            self._at = due
            self._timer = self._loop.call_at(due, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at = math.inf

    def _look(self) -> None:
        self._timer, self._at = None, math.inf
        if self._due <= self._loop.time() + TICK:
            self._call()
        else:
            self.set(self._due)
