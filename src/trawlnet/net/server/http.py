"""The HTTP server of the application, with limits; the command stops it."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MOST_CONNECTIONS = 1000  # Further ones get 503.
_IDLE_SECONDS = 5
_REQUEST_SECONDS = 10.0  # Time limit for the headers of a request.
_LAST_ANSWERS_SECONDS = 5  # Time limit for open requests at the end.
_HEADER_BYTES = 16 << 10
_BACKLOG = 512
_SOCKET_MESSAGE_BYTES = 1 << 20  # That a WebSocket client may send.
_PING_SECONDS = 20.0
_PONG_SECONDS = 60.0


def server_for(
    app: ASGIApp, proxies: Sequence[str] = (), sockets: type[asyncio.Protocol] | None = None
) -> uvicorn.Server:
    """`await server.serve([socket])`; it ends when `should_exit` is set.

    Only the X-Forwarded-For headers of `proxies` are trusted. WebSockets are refused, unless there
    is a protocol for them.
    """
    return _Server(
        uvicorn.Config(
            app,
            loop="none",
            http=_Prompt,
            ws=sockets or "none",
            ws_max_size=_SOCKET_MESSAGE_BYTES,
            ws_ping_interval=_PING_SECONDS,
            ws_ping_timeout=_PONG_SECONDS,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_LAST_ANSWERS_SECONDS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
    )


class _Server(uvicorn.Server):
    """Leaves signals to the command, which handles them in its own steps."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Prompt(H11Protocol):
    """Closes connections of clients that send no request, or do not read the answer: the library
    waits for ever, and a thousand such clients would block all others."""

    _look: asyncio.TimerHandle | None = None
    _unsent = 0  # Unsent bytes at the last check.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on the connection is another protocol's."""
        if self._look is not None:
            self._look.cancel()
        super().handle_websocket_upgrade(event)

    def _look_later(self) -> None:
        self._look = self.loop.call_later(_REQUEST_SECONDS, self._look_again, self.cycle)

    def _look_again(self, before: RequestResponseCycle | None) -> None:
        is_idle = before is None or before.response_complete
        unsent, self._unsent = self._unsent, _untaken(self.transport)
        if self.cycle is not before:
            self._look_later()
        elif self._unsent > 0 and self._unsent == unsent:
            self.transport.abort()  # `close` would wait for the unsent bytes.
        elif is_idle and self._unsent == 0:
            self.transport.close()
        else:
            self._look_later()


def _untaken(transport: asyncio.Transport) -> int:
    """Unsent bytes here and in the kernel, from which a slow reader takes some."""
    kernel = 0
    try:
        sock = transport.get_extra_info("socket")
        (kernel,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))
    except (OSError, ValueError):
        pass  # It is closed.
    return transport.get_write_buffer_size() + kernel


def listening(host: str, port: int) -> socket.socket:
    """Port 0 picks a free one. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(address)
        one.listen(_BACKLOG)
    except OSError:
        one.close()
        raise
    one.setblocking(False)
    return one
