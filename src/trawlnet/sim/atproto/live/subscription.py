"""`subscribeRepos` of a simulated server: the messages after a cursor, then what comes."""

from __future__ import annotations

import asyncio

from aiohttp import WSCloseCode, web

from trawlnet.sim.atproto.live.event_log import FirehoseLog, StreamEnding, error_frame, info_frame
from trawlnet.sim.atproto.xrpc import XrpcRefusal

METHOD = "com.atproto.sync.subscribeRepos"
PATH = f"/xrpc/{METHOD}"
_LONGEST_CURSOR = 16  # Digits.


async def answer_subscription(
    log: FirehoseLog, request: web.BaseRequest, *, is_inclusive: bool
) -> web.StreamResponse:
    """Servers differ in whether they send the message at the cursor again."""
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise XrpcRefusal("AuthMissing", "Authentication Required", 401)
    socket = web.WebSocketResponse(compress=False, heartbeat=30.0)
    await socket.prepare(request)
    seq = await _begin(log, socket, request.query.get("cursor"), is_inclusive=is_inclusive)
    if seq is None:
        return socket
    reading = asyncio.ensure_future(_read(socket))
    try:
        while not reading.done():
            growth = log.growth
            if (ending := log.take_ending()) is not None:
                await _end(socket, request, ending)
                break
            events = log.after(seq)
            for event in events:
                await socket.send_bytes(event.frame())
                seq = event.seq
            if not events:
                await _either(growth, reading)
    finally:
        reading.cancel()
    return socket


async def _end(
    socket: web.WebSocketResponse, request: web.BaseRequest, ending: StreamEnding
) -> None:
    if isinstance(ending.message, str):
        await socket.send_str(ending.message)
    elif ending.message:
        await socket.send_bytes(ending.message)
    elif request.transport is not None:
        request.transport.abort()
    await socket.close()


async def _read(socket: web.WebSocketResponse) -> None:
    """Clients say nothing but that they leave."""
    async for _ in socket:
        pass


async def _either(growth: asyncio.Event, reading: asyncio.Future[None]) -> None:
    growing = asyncio.ensure_future(growth.wait())
    try:
        await asyncio.wait((growing, reading), return_when=asyncio.FIRST_COMPLETED)
    finally:
        growing.cancel()


async def _begin(
    log: FirehoseLog, socket: web.WebSocketResponse, cursor: str | None, *, is_inclusive: bool
) -> int | None:
    """The number after which to tell; None where the client was sent away."""
    if cursor is None:
        return log.last
    digits = cursor.removeprefix("-")
    if not digits.isdecimal() or len(digits) > _LONGEST_CURSOR:
        await _refuse(socket, "InvalidRequest", "Error: cursor must be an integer")
        return None
    seq = int(cursor) - is_inclusive
    if seq > log.last:
        await _refuse(socket, "FutureCursor", "Cursor in the future.")
        return None
    if 0 < seq < log.oldest - 1:
        await socket.send_bytes(info_frame("OutdatedCursor"))
    return seq


async def _refuse(socket: web.WebSocketResponse, name: str, message: str) -> None:
    await socket.send_bytes(error_frame(name, message))
    await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=name.encode())
