"""A proxy before Redis that can lose an answer: what it was about has been done by then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LosingProxy:
    """Passes everything on to Redis, and can lose an answer together with its connection."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.lose = 0
        self.lost = 0
        self.script_asked = False
        self.scripts_left: int | None = None  # To pass on, before every connection breaks.

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", self.target)
        asking = asyncio.create_task(self.pass_requests(reader, requests))
        try:
            while answer := await answers.read(1 << 16):
                # Redis does not know a script at first, says so, and nothing has been done yet.
                if self.lose and self.script_asked and not answer.startswith(b"-NOSCRIPT"):
                    self.lose -= 1
                    self.lost += 1
                    return
                self.script_asked = False
                writer.write(answer)
        finally:
            asking.cancel()
            requests.close()
            writer.close()

    async def pass_requests(
        self, reader: asyncio.StreamReader, requests: asyncio.StreamWriter
    ) -> None:
        while request := await reader.read(1 << 16):
            if b"EVALSHA" in request:
                if self.scripts_left == 0:
                    break
                self.scripts_left = self.scripts_left and self.scripts_left - 1
                self.script_asked = True
            requests.write(request)
        requests.close()


@asynccontextmanager
async def losing_answers(target: int) -> AsyncIterator[LosingProxy]:
    proxy = LosingProxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy
        server.close()
