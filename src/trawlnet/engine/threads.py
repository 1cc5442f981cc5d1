"""Threads for `loop.run_in_executor`; the library's own cost three times as much for each call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple


class Threads(Executor):
    """Calls are begun in the order in which they came. Who is cancelled takes a call back that was
    not begun; one that was goes on to its end.

    What `submit` returns belongs to the running loop, which is told of results by one message and
    not by a future of the threads, a lock and a chain of callbacks.
    """

    def __init__(self, count: int, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._is_open = True
        # Daemons: who never lets go of them can leave all the same.
        self._threads = [
            Thread(target=_serve, args=(self._calls,), name=f"{name}_{n}", daemon=True)
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(  # type: ignore[override]  # A future that nothing has to be wrapped around.
        self, call: Callable[..., Any], /, *args: Any
    ) -> asyncio.Future[Any]:
        if not self._is_open:
            raise RuntimeError("the threads have been let go of")
        future = asyncio.get_running_loop().create_future()
        self._calls.put(_Call(future, call, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What was handed over is still done, unless whoever asked was cancelled."""
        self._is_open = False
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()


class _Call(NamedTuple):
    future: asyncio.Future[Any]
    call: Callable[..., Any]
    args: tuple[Any, ...]


def _serve(calls: SimpleQueue[_Call | None]) -> None:
    while (given := calls.get()) is not None:
        _make(given)
        del given  # Not to be kept until the next one comes: it may be a whole repository.


def _make(given: _Call) -> None:
    future, call, args = given
    if future.cancelled():
        return
    tell: Callable[[asyncio.Future[Any], Any], None]
    try:
        result, tell = call(*args), _tell
    except BaseException as error:  # noqa: BLE001 - Whoever asked is to have it.
        result, tell = error, _tell_error
    try:
        future.get_loop().call_soon_threadsafe(tell, future, result)
    except RuntimeError:
        pass  # The loop is closed: nobody waits any more.


def _tell(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _tell_error(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


@contextmanager
def giving_way() -> Iterator[None]:
    """When this thread wakes, it waits for its turn and interrupts nobody who is computing, so that
    all that has come by then is dealt with together. Threads begun meanwhile do the same."""
    if not _follows("SCHED_OTHER", "SCHED_BATCH"):
        yield  # Another system, or somebody has decided otherwise.
        return
    try:
        yield
    finally:
        _follows("SCHED_BATCH", "SCHED_OTHER")


def _follows(one: str, other: str) -> bool:
    """Whether this thread went from the one policy of the scheduler to the other."""
    try:
        if os.sched_getscheduler(0) != getattr(os, one):
            return False
        os.sched_setscheduler(0, getattr(os, other), os.sched_param(0))
    except (AttributeError, OSError):
        return False
    return True
