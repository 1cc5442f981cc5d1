"""The server of the pages: nobody keeps a connection by saying or taking nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trawlnet.net.server import http as pages
from trawlnet.net.server.http import listening, server_for


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Twenty megabytes to anybody, without a look at what they sent."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for more in (*[True] * 20, False):
        await send({"type": "http.response.body", "body": b"x" * (1 << 20), "more_body": more})


GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET / HT",
        GET,
        GET + b"X: y",
        GET + b"\r\n",  # And nothing of the answer is taken.
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
    ],
    ids=["silent", "half_a_line", "half_a_head", "half_a_header", "reads_nothing", "half_a_body"],
)
def test_whoever_says_or_takes_nothing_is_hung_up_on(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_REQUEST_SECONDS", 0.1)

    async def main() -> None:
        sock = listening("127.0.0.1", 0)
        server = server_for(app)
        serving = asyncio.create_task(server.serve([sock]))
        while not server.started:
            await asyncio.sleep(0.01)
        _, writer = await asyncio.open_connection(*sock.getsockname(), limit=1)
        writer.transport.pause_reading()
        writer.write(first)
        state = server.server_state
        while not state.connections:
            await asyncio.sleep(0.01)
        while state.connections:
            await asyncio.sleep(0.01)
        writer.transport.abort()
        server.should_exit = True
        await serving

    asyncio.run(asyncio.wait_for(main(), 120.0))


@pytest.mark.parametrize("ending", [b"Connection: close\r\n\r\n", b"\r\n"])
def test_a_slow_reader_gets_the_whole_answer(
    ending: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_REQUEST_SECONDS", 0.5)

    async def main() -> int:
        sock = listening("127.0.0.1", 0)
        server = server_for(app)
        serving = asyncio.create_task(server.serve([sock]))
        reader, writer = await asyncio.open_connection(*sock.getsockname(), limit=1 << 16)
        writer.write(GET + ending)
        size = 0
        while piece := await reader.read(1 << 18):
            size += len(piece)
            await asyncio.sleep(0.01)
        writer.close()
        server.should_exit = True
        await serving
        return size

    assert asyncio.run(asyncio.wait_for(main(), 120.0)) > 21 << 20
