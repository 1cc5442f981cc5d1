"""WebSockets that cost us a bounded amount, whatever their clients send or do not read."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request

STALLED = "stalled"  # In the state of a connection's scope: it was hung up on for not reading.
SLOW = "ConsumerTooSlow: nothing was read for too long; reconnect with your cursor"
_STALL_SECONDS = 30.0  # That a client may read next to nothing.
_LAST_SECONDS = 5.0  # To take what was sent before the connection is cut.
_MOST_FRAMES = 1000  # Of one message: empty ones have no size to bound them by.
_UNREADABLE = b"no request that can be read: lines have 8 KB at most; send more in a message\n"
_POLICY = 1008
_TOO_BIG = 1009


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """The library waits without end for a client that reads nothing, answers its pings all the
    same, collects the empty frames of a message that does not end, and does not answer a request
    that it cannot read."""

    stall_seconds = _STALL_SECONDS
    _stall: asyncio.TimerHandle | None = None

    _is_asked: bool = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self._is_asked:
            head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
            size = b"Content-Length: %d\r\n\r\n" % len(_UNREADABLE)
            self.transport.write(head + size + _UNREADABLE)
            self.transport.close()

    def handle_connect(self, event: Request) -> None:
        self._is_asked = True
        super().handle_connect(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Pongs are written without waiting: they would pile up.
        self.transport.pause_reading()
        self._stall = self.loop.call_later(self.stall_seconds, self._stalled)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forgive()
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forgive()
        super().connection_lost(exc)

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= _MOST_FRAMES:
            self._hang_up(_TOO_BIG, "a message of too many frames")
        else:
            super().handle_cont(event)

    async def send(self, message: Any) -> None:
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected()
        await super().send(message)

    def _forgive(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _stalled(self) -> None:
        self.scope["state"][STALLED] = True
        self._hang_up(_POLICY, SLOW)

    def _hang_up(self, code: int, why: str) -> None:
        """With a word that comes behind what was sent, for a client that still takes it."""
        self.stop_keepalive()
        if not self.close_sent:
            self.close_sent = True
            try:
                self.conn.send_close(code, why)
                self.transport.write(b"".join(self.conn.data_to_send()))
            except InvalidState:
                pass  # The client has closed it itself.
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": why})
        self.loop.call_later(_LAST_SECONDS, self.transport.abort)
