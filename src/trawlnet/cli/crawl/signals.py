"""Ctrl-C and SIGTERM: three steps, the same for every long-running verb.

The first signal lets the verb finish its tasks in flight, the second stops it immediately with its
state saved, and the third kills the process: the system does that, even if the process hangs.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.output import say

_STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(
    on_first: Callable[[], str], on_second: Callable[[], object] | None = None
) -> Iterator[None]:
    """Handle signals inside an event loop. `on_first` returns the text of what is being finished;
    without `on_second`, the second signal cancels the current task."""
    steps = _Steps(on_first, on_second or _cancelling())
    for number in _STOPPING:
        signal.signal(number, steps.count)
    atexit.unregister(_ignore_late_ones)
    atexit.register(_ignore_late_ones)
    try:
        yield
    finally:
        # A late signal must not cut off the summary; the third one still kills.
        steps.is_over = True


@contextmanager
def stop_event(finishing: str) -> Iterator[asyncio.Event]:
    """Yield an event that the first signal sets, for work that checks it between two steps."""
    stop = asyncio.Event()

    def first() -> str:
        stop.set()
        return finishing

    with interruptible(first):
        yield stop


def until_signal(work: Coroutine[Any, Any, int]) -> int:
    """Run work that the first signal cancels, and that saves its own state; returns its exit
    code."""
    return asyncio.run(_watched(work))


async def _watched(work: Coroutine[Any, Any, int]) -> int:
    working, is_told = asyncio.ensure_future(work), False

    def first() -> str:
        nonlocal is_told
        is_told = True
        working.cancel()
        return "saving what was stored"

    with interruptible(first, working.cancel):
        try:
            return await working
        except asyncio.CancelledError:
            if not is_told:
                raise
            return Exit.INTERRUPTED


class _Steps:
    """Counts signals in the handler itself: a busy event loop must not delay the third one."""

    def __init__(self, on_first: Callable[[], str], on_second: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_first = on_first
        self._on_second = on_second
        self._count = 0
        self.is_over = False

    def count(self, number: int, frame: object) -> None:
        self._count += 1
        if self._count == 2:
            for one in _STOPPING:
                signal.signal(one, signal.SIG_DFL)
        if not self.is_over:
            self._loop.call_soon_threadsafe(self._first if self._count == 1 else self._second)

    def _first(self) -> None:
        finishing = self._on_first()
        say(f"Interrupted: {finishing}. Press Ctrl-C again to stop immediately; nothing is lost.")

    def _second(self) -> None:
        say("Stopping: unfinished tasks are repeated next time. Ctrl-C again kills the process.")
        self._on_second()


def _ignore_late_ones() -> None:
    """Ignore signals at exit: the interpreter restores the default handlers while it ends, and a
    signal would then change the exit code of a finished verb. No thread is waited for any more."""
    for number in _STOPPING:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)


def _cancelling() -> Callable[[], object]:
    running = asyncio.current_task()
    assert running is not None, "called inside an event loop"
    return running.cancel


def tasks(count: int) -> str:
    """`12 tasks`."""
    return f"{count:,} task{'' if count == 1 else 's'}"
