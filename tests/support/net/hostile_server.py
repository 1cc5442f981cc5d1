"""A raw server on loopback that answers each request with whatever bytes a test scripts."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Exchange:
    """One request as the script sees it, and the way to answer it."""

    head: bytes
    writer: asyncio.StreamWriter
    number: int  # Of this request, over all connections, from 0.
    keep: bool = False  # Whether to wait for another request on the same connection.

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode("ascii")

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def send_whole(self, part: bytes) -> None:
        """Until the kernel has all of it: a client that looks finds it there."""
        await self.send(part)
        while self.writer.transport.get_write_buffer_size():
            await asyncio.sleep(0)

    async def answer(self, status: str = "200 OK", body: bytes = b"", **headers: str) -> None:
        """A proper response; header names are written with underscores."""
        self.keep = True
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def reset(self) -> None:
        """Break the connection rudely."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Exchange], Awaitable[None]]


@dataclass
class HostileServer:
    port: int = 0
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return len(self.heads)

    @property
    def paths(self) -> list[str]:
        return [head.split(b" ", 2)[1].decode("ascii") for head in self.heads]

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@asynccontextmanager
async def hostile(script: Script, host: str = "127.0.0.1") -> AsyncIterator[HostileServer]:
    seen = HostileServer()
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        seen.connections += 1
        try:
            while await _serve_one(reader, writer, seen, script):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client hung up, or the test is over.
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, 0)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _serve_one(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    seen: HostileServer,
    script: Script,
) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    exchange = Exchange(head, writer, number=len(seen.heads))
    seen.heads.append(head)
    await script(exchange)
    return exchange.keep
