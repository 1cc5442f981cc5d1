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
    """Starts calls in the order of arrival. Cancelling the future withdraws a call that has not
    started; one that has runs to its end.

    `submit` returns a future of the running loop. A thread sends results to the loop as one
    message, which avoids a second future, its lock and its callbacks. If more calls wait than
    there are threads, a thread takes up to `most` of them and sends one message for all, so that
    the loop wakes less often. Such a call must not wait for the result of another. `together` maps
    a function to one that makes several calls of it, from a list of their arguments.
    """

    def __init__(
        self, count: int, name: str, most: int = 1, together: Together = MappingProxyType({})
    ) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._is_open = True
        # Daemon threads: a process that never shuts them down can still exit.
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

    def submit(  # type: ignore[override]  # Already a future of asyncio, which needs no wrapper.
        self, call: Callable[..., Any], /, *args: Any
    ) -> asyncio.Future[Any]:
        return self._submitted(asyncio.get_running_loop().create_future(), call, args)

    def submit_whole(self, call: Callable[..., Any], /, *args: Any) -> asyncio.Future[Any]:
        """A call that is always made, to its end. A task that is cancelled while it waits for the
        future is cancelled then; `asyncio.shield` costs a second future and another wake-up. It is
        not for `run_in_executor`, which inspects each function for longer than handing it on."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, CallsInPlace):
            return loop.run_in_executor(self, call, *args)
        return self._submitted(_Unbroken(loop=loop), call, args)

    def _submitted(
        self, future: asyncio.Future[Any], call: Callable[..., Any], args: tuple[Any, ...]
    ) -> asyncio.Future[Any]:
        if not self._is_open:
            raise RuntimeError("the threads have been shut down")
        self._calls.put(_Call(future, call, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Calls that were submitted still run, unless their futures were cancelled."""
        self._is_open = False
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()


class CallsInPlace(asyncio.AbstractEventLoop):
    """A loop that makes calls for threads itself, in place: that of virtual time."""


class _Unbroken(asyncio.Future[Any]):
    def cancel(self, msg: Any = None) -> bool:
        return False  # The waiting task remembers that it was cancelled.


class _Call(NamedTuple):
    future: asyncio.Future[Any]
    call: Callable[..., Any]
    args: tuple[Any, ...]


class _Result(NamedTuple):
    future: asyncio.Future[Any]
    value: Any
    error: BaseException | None


def _serve(calls: SimpleQueue[_Call | None], threads: int, most: int, together: Together) -> None:
    while (first := calls.get()) is not None:
        batch = [first]
        for _ in range(min(most - 1, calls.qsize() // threads)):
            try:
                more = calls.get_nowait()
            except Empty:
                break
            if more is None:
                calls.put(None)  # The end mark, for after this batch.
                break
            batch.append(more)
        _send(_all_made(batch, together))
        # Free the arguments before waiting for the next call: they may be a whole repository.
        del first, batch


def _all_made(batch: list[_Call], together: Together) -> list[_Result]:
    wanted = [one for one in batch if not one.future.cancelled()]
    calls = {one.call for one in wanted}
    if len(wanted) > 1 and len(calls) == 1 and (several := together.get(calls.pop())):
        made = _made(_Call(wanted[0].future, several, ([one.args for one in wanted],)))
        if made.error is None:
            pairs = zip(wanted, made.value, strict=True)
            return [_Result(one.future, value, None) for one, value in pairs]
    # One by one, so that an error belongs to its call alone.
    return [_made(one) for one in wanted if not one.future.cancelled()]


def _made(one: _Call) -> _Result:
    future, call, args = one
    try:
        return _Result(future, call(*args), None)
    except BaseException as error:  # noqa: BLE001 - The future raises it to the caller.
        return _Result(future, None, error)


def _send(results: list[_Result]) -> None:
    if not results:
        return
    try:
        results[0].future.get_loop().call_soon_threadsafe(_complete, results)
    except RuntimeError:
        pass  # The loop is closed: nothing waits for the results.


def _complete(results: list[_Result]) -> None:
    for future, value, error in results:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


@contextmanager
def giving_way() -> Iterator[None]:
    """Schedule this thread as a batch job: when it wakes, it does not preempt a computing thread,
    and so handles together all events that have come by then. Threads started inside inherit it."""
    if not _follows("SCHED_OTHER", "SCHED_BATCH"):
        yield  # Another operating system, or another policy is already set.
        return
    try:
        yield
    finally:
        _follows("SCHED_BATCH", "SCHED_OTHER")


def _follows(one: str, other: str) -> bool:
    """Switch this thread from one scheduling policy to the other; returns whether it did."""
    try:
        if os.sched_getscheduler(0) != getattr(os, one):
            return False
        os.sched_setscheduler(0, getattr(os, other), os.sched_param(0))
    except (AttributeError, OSError):
        return False
    return True
