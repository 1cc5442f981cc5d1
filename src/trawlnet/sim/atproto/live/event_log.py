"""What a server tells on its firehose: messages with numbers, for some time."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trawlnet.atproto.dagcbor import encode


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    seq: int
    did: str
    kind: str  # "#commit" and the like.
    payload: Mapping[str, Any]

    def frame(self) -> bytes:
        return encode({"op": 1, "t": self.kind}) + encode({**self.payload, "seq": self.seq})


@dataclass(frozen=True, slots=True)
class StreamEnding:
    """A message and then the end of the connection; without a message it just breaks."""

    message: bytes | str = b""


def error_frame(name: str, message: str) -> bytes:
    return encode({"op": -1}) + encode({"error": name, "message": message})


def info_frame(name: str) -> bytes:
    return encode({"op": 1, "t": "#info"}) + encode({"name": name})


class FirehoseLog:
    """Numbers only grow; an account that is deleted takes its earlier messages with it."""

    def __init__(self, first: int = 1, window: int = 100_000) -> None:
        self._events: list[LoggedEvent] = []
        self._next = first
        self._window = window
        self._grown = asyncio.Event()
        self.listeners: list[Callable[[LoggedEvent], None]] = []
        self._endings: list[StreamEnding] = []

    def end_next(self, ending: StreamEnding) -> None:
        """One connection ends like this: the one that is open, or the next."""
        self._endings.append(ending)
        self._wake()

    def take_ending(self) -> StreamEnding | None:
        return self._endings.pop(0) if self._endings else None

    def forget_but(self, newest: int) -> None:
        """Only so many messages can still be had."""
        del self._events[: len(self._events) - newest]

    def begin_anew(self) -> None:
        """The server has lost its log, and counts from one."""
        self._events, self._next = [], 1

    @property
    def last(self) -> int:
        """The newest number; one below the first if there is no message yet."""
        return self._next - 1

    @property
    def oldest(self) -> int:
        return self._events[0].seq if self._events else self._next

    def add(self, did: str, kind: str, payload: Mapping[str, Any]) -> LoggedEvent:
        event = LoggedEvent(self._next, did, kind, payload)
        self._next += 1
        self._events.append(event)
        if len(self._events) > self._window:
            del self._events[: self._window // 10 or 1]
        for tell in self.listeners:
            tell(event)
        self._wake()
        return event

    def skip(self, numbers: int) -> None:
        """Numbers may be left out."""
        self._next += numbers

    def erase(self, did: str) -> None:
        self._events = [event for event in self._events if event.did != did]

    def after(self, seq: int, most: int = 500) -> Sequence[LoggedEvent]:
        start = bisect_left(self._events, seq + 1, key=lambda event: event.seq)
        return self._events[start : start + most]

    @property
    def growth(self) -> asyncio.Event:
        """Set with the next message."""
        return self._grown

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()
