"""`/export/stream` of a simulated PLC directory: the operations after a cursor, then what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import WSCloseCode, web

PATH = "/export/stream"
_LOOK = 0.05  # Seconds between two looks at the log.
_PAGE = 100  # Operations.
_LONGEST_CURSOR = 16  # Digits.

Line = dict[str, Any]
# The lines behind a number, so many at most.
LinesAfter = Callable[[int, int], Sequence[Line]]


@dataclass(frozen=True, slots=True)
class StreamHabits:
    """How it misbehaves: each so-manyth message of a connection, or never."""

    refusal: int = 0  # A status instead of a stream.
    oldest: int = 0  # A cursor below has the connection closed.
    drop_every: int = 0
    repeat_every: int = 0  # Told twice.
    swap_every: int = 0  # Told after the one that follows.
    garbage_every: int = 0  # Something else is told before it.
    close_every: int = 0  # The connection is closed instead,
    break_every: int = 0  # or broken off.


HONEST_STREAM = StreamHabits()


class PlcStream:
    def __init__(self, lines_after: LinesAfter, habits: StreamHabits = HONEST_STREAM) -> None:
        self._lines_after = lines_after
        self.habits = habits
        self.cursors: list[int | None] = []  # Of all who came.
        self.told = 0  # Messages.

    async def answer(self, request: web.BaseRequest, last: int) -> web.StreamResponse:
        """`last` is the highest number of the log."""
        if self.habits.refusal or request.headers.get("Upgrade", "").lower() != "websocket":
            status = self.habits.refusal or 426
            return web.json_response({"message": "Not found"}, status=status)
        socket = web.WebSocketResponse(compress=False, heartbeat=30.0)
        await socket.prepare(request)
        cursor = request.query.get("cursor")
        seq = _number(cursor)
        self.cursors.append(seq)
        if cursor is not None and (seq is None or seq > last):
            await _close(socket, "FutureCursor" if seq is not None else "InvalidCursor")
        elif seq is not None and seq < self.habits.oldest:
            await _close(socket, "OutdatedCursor")
        else:
            await self._tell_on(socket, last if seq is None else seq)
        return socket

    async def _tell_on(self, socket: web.WebSocketResponse, seq: int) -> None:
        reading = asyncio.ensure_future(_read(socket))
        teller = _Teller(socket, self.habits)
        try:
            while not reading.done():
                lines = self._lines_after(seq, _PAGE)
                for line in lines:
                    if not await teller.tell(line):
                        return
                    seq = line["seq"]
                    self.told += 1
                if not lines:
                    await asyncio.wait((reading,), timeout=_LOOK)
        except ConnectionError:
            pass  # It has hung up.
        finally:
            reading.cancel()


class _Teller:
    """Of one connection."""

    def __init__(self, socket: web.WebSocketResponse, habits: StreamHabits) -> None:
        self._socket = socket
        self._habits = habits
        self._count = 0
        self._late: Line | None = None

    async def tell(self, line: Line) -> bool:
        """Whether the connection goes on."""
        self._count += 1
        habits = self._habits
        if self._is_turn(habits.close_every):
            await _close(self._socket, "ConsumerTooSlow")
            return False
        if self._is_turn(habits.break_every):
            assert self._socket._req is not None and self._socket._req.transport is not None
            self._socket._req.transport.abort()
            return False
        if self._is_turn(habits.drop_every):
            return True
        if self._is_turn(habits.garbage_every):
            await self._socket.send_str('{"type": "weather", "message": "fine"}')
        if self._is_turn(habits.swap_every) and self._late is None:
            self._late = line
            return True
        await self._say(line)
        if self._is_turn(habits.repeat_every):
            await self._say(line)
        if self._late is not None:
            await self._say(self._late)
            self._late = None
        return True

    async def _say(self, line: Line) -> None:
        await self._socket.send_str(orjson.dumps(line).decode())

    def _is_turn(self, every: int) -> bool:
        return every > 0 and self._count % every == 0


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isdecimal() and len(text) <= _LONGEST_CURSOR
    return int(text) if is_number and text is not None else None


async def _read(socket: web.WebSocketResponse) -> None:
    """Clients say nothing but that they leave."""
    async for _ in socket:
        pass


async def _close(socket: web.WebSocketResponse, why: str) -> None:
    await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=why.encode())
