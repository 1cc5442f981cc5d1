"""Virtual time for asyncio: when every task waits, the clock jumps to the next deadline."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

from trawlnet.engine.threads import CallsInPlace

T = TypeVar("T")

_LONGEST_INSTANT = 200_000  # Turns of the loop, and calls for threads, at one time.


def run_sim(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, which starts at 0."""
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main)


class SimClock:
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimLoop(asyncio.SelectorEventLoop, CallsInPlace):
    """Runs work for threads in place, so that nothing waits in real time."""

    def __init__(self) -> None:
        self.sim_now = 0.0
        self._turns = 0
        super().__init__(_JumpSelector(self))

    def time(self) -> float:
        return self.sim_now

    def pass_time(self, seconds: float) -> None:
        self.sim_now += seconds
        self._turns = 0

    def stand_still(self) -> None:
        """Raises RuntimeError when something never waits: no time would ever pass."""
        self._turns += 1
        if self._turns > _LONGEST_INSTANT:
            self._turns = 0  # The loop has to come to its end.
            raise RuntimeError(f"time stands still at {self.sim_now}: something never waits")

    def run_in_executor(  # type: ignore[override]  # The base class returns an awaitable, too.
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        self.stand_still()
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - Raised by the awaiting caller, as by a thread.
            future.set_exception(error)
        return future


class _JumpSelector(selectors.DefaultSelector):
    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("deadlock: every task is waiting and no timer is set")
        if timeout > 0:
            self._loop.pass_time(timeout)
        else:
            self._loop.stand_still()
        return super().select(0)
