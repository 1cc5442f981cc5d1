"""Output: data goes to stdout, messages for people go to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO, TypeVar

from trawlnet.engine.ports import Clock
from trawlnet.net.redact import redact

T = TypeVar("T")


def say(text: str) -> None:
    """One line for people, without secrets. A terminal that has gone away is no reason to stop a
    crawl."""
    try:
        print(redact(text), file=sys.stderr, flush=True)
    except OSError:
        pass


def now_and_then(clock: Clock, line: Callable[[T, float], str]) -> Callable[[T], None]:
    """A function that prints a progress line from a state and the elapsed seconds: twice a minute
    at most, on a terminal every two seconds."""
    every = _EVERY_LIVE if sys.stderr.isatty() else _EVERY
    begun = said_at = clock.now()

    def tell(state: T) -> None:
        nonlocal said_at
        now = clock.now()
        if now - said_at >= every:
            said_at = now
            say(line(state, now - begun))

    return tell


def at_once_and_then(clock: Clock, line: Callable[[T], str]) -> Callable[[T], None]:
    """A function that prints a warning: the first time, and then twice a minute at most."""
    said_at: float | None = None

    def tell(state: T) -> None:
        nonlocal said_at
        now = clock.now()
        if said_at is None or now - said_at >= _EVERY:
            said_at = now
            say(line(state))

    return tell


_EVERY, _EVERY_LIVE = 30.0, 2.0  # Seconds.


def emit(row: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(row), flush=True)


class Lasting(io.TextIOBase):
    """A stream that stays usable when its terminal has gone; further output is discarded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # Typed as an attribute, read like one.
        return self._stream.encoding

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            pass

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def mute_stdout() -> None:
    """Discard buffered output after the reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def iso(instant: float) -> str | None:
    """ISO 8601 UTC; None for the instant 0, which stands for never."""
    if instant <= 0.0:
        return None
    text = datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def listed(counts: Mapping[Any, int]) -> str:
    """`ok 1,200, timeout 3`: the most frequent first."""
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return ", ".join(f"{name} {count:,}" for name, count in ranked if count) or "none"


def size(count: int) -> str:
    """`1.5 MB`; 1 KB is 1024 bytes."""
    if count < 1024:
        return f"{count} bytes"
    amount, unit = count / 1024, "KB"
    for bigger in ("MB", "GB", "TB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, bigger
    return f"{amount:.1f} {unit}"
