"""Progress of a long read: a bar on a terminal, else a line every half a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trawlnet.cli.common.output import say, size
from trawlnet.loading import load

_EVERY = 30.0  # Seconds between lines where there is no terminal.


@contextmanager
def progress_bar(doing: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield the function to call with each further number of bytes."""
    if not sys.stderr.isatty():
        yield _liner(doing, total)
        return
    console = load("rich.console:Console")(stderr=True)
    rich = load("rich.progress")
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn(binary_units=True),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda count: bar.advance(task, count)


def _liner(doing: str, total: int) -> Callable[[int], None]:
    done, said_at = 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, said_at
        done += count
        if time.monotonic() - said_at >= _EVERY:
            said_at = time.monotonic()
            say(f"{doing}: {size(done)} of {size(total)}")

    return advance
