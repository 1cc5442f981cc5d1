"""Shows the progress while a crawl runs: live block, plain lines or JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum
from typing import TextIO

from trawlnet.loading import load
from trawlnet.observe.progress import ProgressMeter, Snapshot
from trawlnet.observe.terminal.render import json_line, plain_line


class Style(Enum):
    LIVE = "live"  # A block that redraws itself.
    PLAIN = "plain"  # A line at intervals.
    JSON = "json"  # An object per line, for programs.
    QUIET = "quiet"


_LIVE_EVERY = 0.25
_LINE_EVERY = 30.0


@asynccontextmanager
async def showing(
    progress: ProgressMeter, style: Style, out: TextIO, every: float | None = None
) -> AsyncIterator[None]:
    """Show the crawl that runs inside: at once, at intervals, and once more at its end.

    `out` is stdout for JSON and stderr for the others; the caller owns it.
    """
    if style is Style.QUIET:
        yield
    elif style is Style.LIVE:
        drawn_on = load("trawlnet.observe.terminal.block:drawn_on")  # Only a terminal needs rich.
        with drawn_on(out) as draw:
            async with _repeating(progress, draw, every or _LIVE_EVERY):
                yield
    else:
        line = json_line if style is Style.JSON else plain_line
        async with _repeating(progress, _writer(out, line), every or _LINE_EVERY):
            yield


def _writer(out: TextIO, line: Callable[[Snapshot], str]) -> Callable[[Snapshot], None]:
    def write(snap: Snapshot) -> None:
        try:
            out.write(line(snap) + "\n")
            out.flush()
        except (OSError, ValueError):
            pass  # The reader has closed the stream; the crawl continues.

    return write


@asynccontextmanager
async def _repeating(
    progress: ProgressMeter, show: Callable[[Snapshot], None], every: float
) -> AsyncIterator[None]:
    show(await progress.snapshot())
    repeating = asyncio.create_task(_repeat(progress.snapshot, show, every))
    try:
        yield
    finally:
        repeating.cancel()
        await asyncio.gather(repeating, return_exceptions=True)
    # Not after an exception: the last snapshot would read the store, which may have failed.
    progress.ended = True
    show(await progress.snapshot())


async def _repeat(
    take: Callable[[], Awaitable[Snapshot]], show: Callable[[Snapshot], None], every: float
) -> None:
    while True:
        await asyncio.sleep(every)
        show(await take())
