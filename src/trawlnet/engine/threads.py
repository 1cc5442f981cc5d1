"""Threads for `loop.run_in_executor`; the library's own cost three times as much for each call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import Any, NamedTuple

Together = Mapping[Callable[..., Any], Callable[[list[tuple[Any, ...]]], list[Any]]]


class Threads(Executor):
    """Calls are begun in the order in which they came. Who is cancelled takes a call back that was
    not begun; one that was goes on to its end.

    What `submit` returns belongs to the running loop, which is told of results by one message and
    not by a future of the threads, a lock and a chain of callbacks. Where more calls wait than
    there are threads, one takes up to `most` of them, and its message is of all: the loop is woken
    less often. Nothing that such a call waits for may depend on the result of another. `together`
    has, for a function, one that makes several calls of it, given the arguments of each.
    """

    def __init__(
        self, count: int, name: str, most: int = 1, together: Together = MappingProxyType({})
    ) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._is_open = True
        # Daemons: who never lets go of them can leave all the same.
        self._threads = [
            Thread(
                target=_serve,
                args=(self._calls, count, most, together),
                name=f"{name}_{n}",
                daemon=True,
            )
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


class _Result(NamedTuple):
    future: asyncio.Future[Any]
    value: Any
    error: BaseException | None


def _serve(calls: SimpleQueue[_Call | None], threads: int, most: int, together: Together) -> None:
    while (given := calls.get()) is not None:
        batch = [given]
        for _ in range(min(most - 1, calls.qsize() // threads)):
            try:
                more = calls.get_nowait()
            except Empty:
                break
            if more is None:
                calls.put(None)  # The end, which comes after what we have.
                break
            batch.append(more)
        _tell(_all_made(batch, together))
        # Not to be kept until the next one comes: it may be a whole repository.
        del given, batch


def _all_made(batch: list[_Call], together: Together) -> list[_Result]:
    wanted = [one for one in batch if not one.future.cancelled()]
    calls = {one.call for one in wanted}
    if len(wanted) > 1 and len(calls) == 1 and (several := together.get(calls.pop())):
        made = _made(_Call(wanted[0].future, several, ([one.args for one in wanted],)))
        if made.error is None:
            pairs = zip(wanted, made.value, strict=True)
            return [_Result(one.future, value, None) for one, value in pairs]
    # One by one, an error is that of its call alone.
    return [_made(one) for one in wanted if not one.future.cancelled()]


def _made(given: _Call) -> _Result:
    future, call, args = given
    try:
        return _Result(future, call(*args), None)
    except BaseException as error:  # noqa: BLE001 - Whoever asked is to have it.
        return _Result(future, None, error)


def _tell(results: list[_Result]) -> None:
    if not results:
        return
    try:
        results[0].future.get_loop().call_soon_threadsafe(_heard, results)
    except RuntimeError:
        pass  # The loop is closed: nobody waits any more.


def _heard(results: list[_Result]) -> None:
    for future, value, error in results:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
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
