"""The server's side of a WebSocket by hand, for servers that do it wrong."""

from __future__ import annotations

import base64
import hashlib
import struct

from tests.support.net.hostile_server import Exchange

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # As RFC 6455 has it.


def accepting(exchange: Exchange, *, more: str = "") -> bytes:
    """The head that switches to the WebSocket that was asked for."""
    key = exchange.headers["sec-websocket-key"]
    accept = base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n{more}\r\n"
    ).encode()


def frame(kind: int, payload: bytes = b"", *, fin: bool = True, bits: int = 0) -> bytes:
    """As a server sends one: unmasked. `bits` are the reserved ones."""
    first = (fin << 7) | bits | kind
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", first, size) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", first, 126, size) + payload
    return struct.pack("!BBQ", first, 127, size) + payload


def close_frame(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason)
