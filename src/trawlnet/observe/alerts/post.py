"""A POST to a webhook over asyncio's streams: one request a minute needs no library."""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
from dataclasses import dataclass
from http.client import HTTPMessage, parse_headers
from urllib.parse import unquote, urlsplit

_HEAD_BYTES = 64 * 1024
_BODY_BYTES = 4096  # Bytes of an answer that are read.


@dataclass(frozen=True, slots=True)
class PostAnswer:
    status: int
    headers: HTTPMessage  # Case-insensitive.
    body: bytes  # Its first bytes.


async def post_json(url: str, body: bytes, timeout: float) -> PostAnswer:
    """Redirects are not followed. Raises OSError, TimeoutError, and ValueError for an answer that
    is not HTTP."""
    parts = urlsplit(url)
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(
            parts.hostname, port, ssl=tls, limit=_HEAD_BYTES
        )
        try:
            writer.write(_request(url, body))
            await writer.drain()
            return await _answer(reader)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ValueError("the answer ends early, or its head never does") from error
        finally:
            writer.close()


def _request(url: str, body: bytes) -> bytes:
    parts = urlsplit(url)
    credentials, _, host = parts.netloc.rpartition("@")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {host}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if credentials:
        token = base64.b64encode(unquote(credentials).encode()).decode()
        lines.append(f"Authorization: Basic {token}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _answer(reader: asyncio.StreamReader) -> PostAnswer:
    status = 100
    while status < 200:  # A server may send "100 Continue" first.
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, fields = head.partition(b"\r\n")
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise ValueError("the answer is not HTTP")
        status = int(rest[:3])
    headers = parse_headers(io.BytesIO(fields))
    length = headers.get("Content-Length", "")
    most = min(int(length), _BODY_BYTES) if length.isdecimal() else _BODY_BYTES
    return PostAnswer(status, headers, await reader.read(most) if most else b"")
