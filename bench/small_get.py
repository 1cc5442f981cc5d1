"""CPU for one small GET: through Http, beside the library bare, interleaved in one run.

Run: python bench/small_get.py [requests]
The server is a process of its own; only the client's CPU is counted.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection

import aiohttp
import uvloop

from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.agent import user_agent
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http

BODY = b"x" * 2048
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2048\r\n\r\n" + BODY
ROUNDS = 60
CONCURRENCY = 16


class Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER * data.count(b"\r\n\r\n"))  # type: ignore[attr-defined]


def serve(port: Connection) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


class NoTurns:
    def turn(self, lane: str) -> nullcontext[NoTurns]:
        return nullcontext(self)

    async def leave(self) -> None:
        pass


async def cpu_per_get(get: Callable[[], Awaitable[object]], count: int) -> float:
    """Microseconds of this process's CPU."""

    async def worker() -> None:
        for _ in range(count // CONCURRENCY):
            await get()

    before = time.process_time()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return (time.process_time() - before) / (count // CONCURRENCY * CONCURRENCY) * 1e6


async def measure(url: str, count: int) -> None:
    agent, clock, guard = user_agent("https://example.org/bench"), SystemClock(), Guard(True)
    gate = Gate(clock, Manners(rate=float("inf"), concurrency=CONCURRENCY))
    async with (
        aiohttp.ClientSession(headers={"User-Agent": agent}) as session,
        Http(NoTurns(), clock, agent, guard=guard) as http,
        Http(gate, clock, agent, guard=guard) as gated,
    ):

        async def bare() -> bytes:
            async with session.get(url, allow_redirects=False) as response:
                return await response.read()

        ways = {
            "aiohttp": bare,
            "Http": lambda: http.get(url),
            "Http + Gate": lambda: gated.get(url),
        }
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, get in ways.items():
                spent[name].append(await cpu_per_get(get, count // ROUNDS))
    base = statistics.median(spent["aiohttp"][1:])
    print("way           CPU/GET   ratio   (2 KiB bodies, keep-alive, median of rounds)")
    for name, figures in spent.items():
        middle = statistics.median(figures[1:])
        print(f"{name:12} {middle:6.0f} µs   {middle / base:.2f}x")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    uvloop.run(measure(f"http://127.0.0.1:{ours.recv()}/item", count))
    server.terminate()


if __name__ == "__main__":
    main()
