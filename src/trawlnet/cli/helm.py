"""Steering a running crawl from outside: signals, and control files in the workspace."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from trawlnet.cli.errors import Exit
from trawlnet.cli.talk import say
from trawlnet.cli.workspace import Workspace, shown
from trawlnet.engine.control import Control

_LOOK_EVERY = 1.0  # Seconds between two looks at the control files.
_STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def steered_by_signals(
    control: Control, reload: Callable[[], None], has_begun: Callable[[], bool]
) -> Iterator[asyncio.Event]:
    """Inside, signals steer the crawl; gives the event that SIGUSR1 sets to ask for status."""
    loop, running, asked = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    told: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        told.append(number)
        if not has_begun() and running is not None:
            say(f"{number.name}: stopping before the crawl has begun")
            running.cancel()
        elif len(told) == 1:
            control.drain()
            say(f"{number.name}: finishing {control.in_flight} in flight; once more stops at once")
        elif len(told) == 2:
            say(f"{number.name}: stopping at once; what was in flight is done again next time")
            if running is not None:
                running.cancel()
        else:
            # As safe as SIGKILL, and for the same reason: what counts is on disk already.
            os._exit(Exit.INTERRUPTED)

    for number in _STOPPING:
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGUSR1, asked.set)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield asked
    finally:
        for number in (*_STOPPING, signal.SIGUSR1, signal.SIGHUP):
            loop.remove_signal_handler(number)
            # All that is left is to say how it ended: a late signal must not cut that short.
            signal.signal(number, signal.SIG_IGN)


class ControlFiles:
    """`pause` and `stop` files, for all crawlers of a workspace or, with its name, for one."""

    def __init__(self, workspace: Workspace, control: Control) -> None:
        self._workspace = workspace
        self._control = control

    def look(self) -> None:
        control = self._control
        if control.ending is None and (found := self._workspace.flag("stop")):
            control.drain()
            say(f"{shown(found)} is there: finishing {control.in_flight} in flight")
            say(f"hint: remove {shown(found)} before you crawl again")
        found = self._workspace.flag("pause")
        if found and not control.paused:
            control.pause()
            say(f"{shown(found)} is there: paused; remove it to go on")
        elif control.paused and not found:
            control.resume()
            say("the pause file is gone: going on")

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self.look()


async def answering(asked: asyncio.Event, answer: Callable[[], Awaitable[str]]) -> None:
    """Say how the crawl is doing whenever somebody asks."""
    while True:
        await asked.wait()
        asked.clear()
        say(await answer())


@asynccontextmanager
async def beside(*companions: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these while the body runs, and end them with it."""
    tasks = [asyncio.create_task(companion) for companion in companions]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
