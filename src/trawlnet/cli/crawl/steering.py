"""Steering a running crawl from outside: signals, and control files in the workspace."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from trawlnet.cli.common.output import say
from trawlnet.cli.common.workspace import Workspace, shown
from trawlnet.cli.crawl.signals import interruptible, tasks
from trawlnet.engine.control import Control

_LOOK_EVERY = 1.0  # Seconds between two looks at the control files.


@contextmanager
def steered_by_signals(
    control: Control, reload: Callable[[], None], has_begun: Callable[[], bool]
) -> Iterator[asyncio.Event]:
    """Let signals steer the crawl inside; yields the event that SIGUSR1 sets to ask for status."""
    loop, running, asked = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()

    def first() -> str:
        if not has_begun() and running is not None:
            running.cancel()
            return "the crawl has not begun"
        control.drain()
        return f"finishing {tasks(control.figures.in_flight)}"

    loop.add_signal_handler(signal.SIGUSR1, asked.set)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        with interruptible(first):
            yield asked
    finally:
        for number in (signal.SIGUSR1, signal.SIGHUP):
            loop.remove_signal_handler(number)
            # Only the summary is left: a late signal must not cut it off.
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
            say(f"{shown(found)} exists: finishing {tasks(control.figures.in_flight)}")
            say(f"hint: remove {shown(found)} before you crawl again")
        found = self._workspace.flag("pause")
        if found and not control.paused:
            control.pause()
            say(f"{shown(found)} exists: paused; remove it to continue")
        elif control.paused and not found:
            control.resume()
            say("the pause file was removed: continuing")

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self.look()


async def answering(asked: asyncio.Event, answer: Callable[[], Awaitable[str]]) -> None:
    """Print the state of the crawl each time the event is set."""
    while True:
        await asked.wait()
        asked.clear()
        say(await answer())


@asynccontextmanager
async def beside(*companions: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these coroutines while the body runs, and cancel them after it."""
    tasks = [asyncio.create_task(companion) for companion in companions]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
