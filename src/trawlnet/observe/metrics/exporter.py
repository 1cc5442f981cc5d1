"""Serves the metrics of a running crawl over HTTP, for Prometheus to scrape."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from trawlnet.loading import load

_MOST_CONNECTIONS = 32  # At a time; further ones are closed.
_HEAD_BYTES = 8 * 1024
_HEAD_SECONDS = 5.0  # Time limit for receiving a request.
_ANSWER_SECONDS = 10.0  # Time limit for sending the answer.
_SHUTDOWN = 1.0  # Seconds that a scrape in progress gets when the crawl ends.

Scrape = Callable[[], Awaitable[bytes]]


class MetricsAddressError(Exception):
    """The address cannot be used."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint  # What to type instead.


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `:PORT` or `PORT`; without a host only this machine can connect."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or (colon and "/" in host):
        raise MetricsAddressError(
            f"metrics address {text!r} is not HOST:PORT",
            "write it like --metrics-address 127.0.0.1:9464",
        )
    return host.strip("[]") or "127.0.0.1", int(port)


@asynccontextmanager
async def serving_metrics(scrape: Scrape, address: str) -> AsyncIterator[str]:
    """Serve `/metrics` while the body runs; yields the URL, with the real port for port 0."""
    host, port = parse_address(address)
    door = _Door(scrape)
    try:
        server = await asyncio.start_server(door.meet, host, port, limit=_HEAD_BYTES)
    except OSError as error:
        raise MetricsAddressError(
            f"cannot serve metrics on {host}:{port}: {os.strerror(error.errno or 0).lower()}",
            f"choose another port, or have one picked: --metrics-address {host}:0",
        ) from error
    bound_host, bound_port, *_ = server.sockets[0].getsockname()
    shown_host = f"[{bound_host}]" if ":" in bound_host else bound_host
    try:
        yield f"http://{shown_host}:{bound_port}/metrics"
    finally:
        server.close()
        await door.close()


class _Door:
    """One request for each connection, and a deadline for each step, so that idle clients cannot
    block the next scrape."""

    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape
        self._inside: set[asyncio.Task[None]] = set()

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._inside) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._inside.add(task)
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            answer = await self._answer(head.split(b" ", 2)[:2])
            async with asyncio.timeout(_ANSWER_SECONDS):
                writer.write(answer)
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # An invalid or abandoned request.
        finally:
            self._inside.discard(task)
            writer.transport.abort()

    async def close(self) -> None:
        if self._inside:
            await asyncio.wait(self._inside, timeout=_SHUTDOWN)
        for task in list(self._inside):
            task.cancel()
        await asyncio.gather(*self._inside, return_exceptions=True)

    async def _answer(self, words: list[bytes]) -> bytes:
        method, target = words if len(words) == 2 else (b"", b"")
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "text/plain", b"only GET\n")
        if target.partition(b"?")[0] != b"/metrics":
            return _response("404 Not Found", "text/plain", b"see /metrics\n")
        text = await self._scrape()
        kind = load("prometheus_client:CONTENT_TYPE_LATEST")
        whole = _response("200 OK", kind, text)
        return whole if method == b"GET" else whole[: len(whole) - len(text)]


def _response(status: str, kind: str, body: bytes) -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body
