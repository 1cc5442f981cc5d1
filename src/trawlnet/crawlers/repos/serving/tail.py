"""The end of the event log in memory: read once, made into messages once, for all clients."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from trawlnet.crawlers.repos.events.event_log import EventReader
from trawlnet.crawlers.repos.serving.wire import WireMessage, wire_message
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.wakeup import Wakeup

_BYTES = 32 << 20  # That are held; who is further behind reads files.


@dataclass(frozen=True, slots=True)
class LoggedPiece:
    """What stands between two places of the log."""

    messages: Sequence[WireMessage]
    start: SpoolPosition
    end: SpoolPosition
    size: int


class EventTail:
    """To be run beside the server. `grown` fires when there is more."""

    def __init__(self, reader: EventReader, end: SpoolPosition) -> None:
        self._reader = reader
        self._pieces: deque[LoggedPiece] = deque()
        self._size = 0
        self.end = end
        self.grown = Wakeup()

    async def run(self) -> None:
        async for batch in self._reader.follow(self.end):
            messages = [wire_message(one) for one in batch.events]
            self._add(_piece(messages, self.end, batch.end))
            self.end = batch.end
            self.grown.fire()

    def after(self, at: SpoolPosition) -> LoggedPiece | None:
        """What comes next, empty at the end; None for a place that is not in memory."""
        if at >= self.end:
            return LoggedPiece((), at, at, 0)
        place = bisect_left(self._pieces, at, key=lambda piece: piece.start)
        found = next(islice(self._pieces, place, None), None)
        return found if found is not None and found.start == at else None

    async def read(self, at: SpoolPosition) -> LoggedPiece:
        """From files, up to where a piece in memory begins. Raises SegmentsPruned."""
        return await asyncio.to_thread(self._read, at, self.end)

    def _read(self, at: SpoolPosition, until: SpoolPosition) -> LoggedPiece:
        batch = self._reader.read_now(at, until)
        return _piece([wire_message(one) for one in batch.events], at, batch.end)

    def _add(self, piece: LoggedPiece) -> None:
        self._pieces.append(piece)
        self._size += piece.size
        while self._size > _BYTES and len(self._pieces) > 1:
            self._size -= self._pieces.popleft().size


def _piece(
    messages: Sequence[WireMessage], start: SpoolPosition, end: SpoolPosition
) -> LoggedPiece:
    return LoggedPiece(messages, start, end, sum(one.size for one in messages))
