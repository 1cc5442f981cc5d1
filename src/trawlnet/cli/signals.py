"""Ending a command that is no crawl: the first signal gives up what is under way, and saves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from trawlnet.cli.errors import Exit
from trawlnet.cli.talk import say

_STOPPING = (signal.SIGINT, signal.SIGTERM)


def until_signal(work: Coroutine[Any, Any, int]) -> int:
    """The exit code of the work, or that it was interrupted."""
    return asyncio.run(_watched(work))


async def _watched(work: Coroutine[Any, Any, int]) -> int:
    loop, working, told = asyncio.get_running_loop(), asyncio.ensure_future(work), False

    def stop(number: signal.Signals) -> None:
        nonlocal told
        told = True
        say(f"{number.name}: stopping; what was stored stays")
        working.cancel()

    for number in _STOPPING:
        loop.add_signal_handler(number, stop, number)
    try:
        return await working
    except asyncio.CancelledError:
        if not told:
            raise
        return Exit.INTERRUPTED
    finally:
        for number in _STOPPING:
            loop.remove_signal_handler(number)
