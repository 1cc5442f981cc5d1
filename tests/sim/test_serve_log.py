"""What a simulated server writes down about requests, however busy it is."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path

from aiohttp import web

from trawlnet.net.clock import SystemClock
from trawlnet.sim.serve import Call, bind_hosts, serve

BUSY = 0.15  # Seconds.
ASK = b"GET /%s HTTP/1.1\r\nHost: a.example\r\n\r\n"


def test_a_request_came_between_the_two_instants_that_are_logged(tmp_path: Path) -> None:
    """Also when the loop was busy as it came, over a new connection or one that was kept."""
    clock = SystemClock()
    sent: dict[str, float] = {}

    def ask(connection: socket.socket, name: str) -> None:
        sent[f"/{name}"] = clock.now()
        connection.sendall(ASK % name.encode())

    async def main() -> None:
        (listener,) = bind_hosts(["127.0.0.1"])

        async def answer(call: Call) -> web.StreamResponse:
            if call.request.path == "/busy":
                # From within the loop, so that they come while it is held up for certain.
                ask(kept, "kept")
                fresh.connect(listener.getsockname())
                ask(fresh, "fresh")
                time.sleep(BUSY)
            return web.Response(text="fine")

        served = await serve(answer, [listener], clock=clock, log=tmp_path / "log")
        with socket.socket() as kept, socket.socket() as fresh, socket.socket() as first:
            for connection, name in ((kept, "calm"), (first, "busy")):
                connection.connect(listener.getsockname())
                ask(connection, name)
                await asyncio.to_thread(connection.recv, 1000)
            await asyncio.to_thread(kept.recv, 1000)
            await asyncio.to_thread(fresh.recv, 1000)
        await served.close()

    asyncio.run(main())
    rows = {row["path"]: row for row in map(json.loads, (tmp_path / "log").open())}
    assert rows.keys() == sent.keys() == {"/calm", "/busy", "/kept", "/fresh"}
    for path, row in rows.items():
        assert row["since"] <= sent[path] <= row["time"], path
    for path in ("/kept", "/fresh"):
        assert rows[path]["time"] - sent[path] >= BUSY, "seen late, as it says"
