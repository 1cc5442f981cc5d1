"""What a message of a WebSocket costs its reader: ours beside two whole clients and two parsers.

Run: python bench/websocket.py
A process of its own sends messages of three kilobytes over loopback, as fast as they are taken.
Ways are interleaved; the median CPU time of five rounds counts. docs/decisions/0105 quotes it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import uvloop
from websockets.asyncio.client import connect
from wsproto.connection import Connection as WsprotoConnection
from wsproto.connection import ConnectionType

from tests.support.net.clients import AGENT
from tests.support.net.hostile_server import Exchange, hostile
from tests.support.net.raw_websocket import BINARY, accepting, close_frame, frame
from trawlnet.net.client.socket_ends import SocketLimits
from trawlnet.net.client.websocket import open_websocket
from trawlnet.net.guard import Guard
from trawlnet.net.trouble import ConnectionDropped

MESSAGES = 20_000
SIZE = 3000  # Bytes.
ROUNDS = 5
FRAMES = frame(BINARY, b"\x07" * SIZE) * 20


def main() -> None:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    url = f"ws://127.0.0.1:{ours.recv()}/"
    ways: dict[str, Callable[[str], Awaitable[int]]] = {
        "ours": by_us,
        "websockets": by_websockets,
        "aiohttp": by_aiohttp,
    }
    taken: dict[str, list[float]] = {name: [] for name in [*ways, "wsproto, no socket"]}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            taken[name].append(timed(lambda way=way: uvloop.run(way(url))))
        taken["wsproto, no socket"].append(timed(by_wsproto))
    server.terminate()
    server.join()
    for name, seconds in taken.items():
        each = statistics.median(seconds) / MESSAGES * 1e6
        ratio = statistics.median(seconds) / statistics.median(taken["ours"])
        print(f"{name:20} {each:6.1f} us of CPU each  {ratio:5.2f} of ours")


def timed(way: Callable[[], Any]) -> float:
    begun = time.process_time()
    assert way() == MESSAGES
    return time.process_time() - begun


async def by_us(url: str) -> int:
    count = 0
    guard = Guard(allow_private=True)
    async with open_websocket(url, agent=AGENT, guard=guard, limits=SocketLimits()) as socket:
        try:
            while True:
                count += len(await socket.receive()) == SIZE
        except ConnectionDropped:
            return count


async def by_websockets(url: str) -> int:
    async with connect(url, compression=None, max_size=None) as socket:
        return sum([len(message) == SIZE async for message in socket])


async def by_aiohttp(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        return sum([len(message.data) == SIZE async for message in socket])


def by_wsproto() -> int:
    parser = WsprotoConnection(ConnectionType.CLIENT)
    count = 0
    for _ in range(MESSAGES // 20):
        parser.receive_data(FRAMES)
        count += sum(event.message_finished for event in parser.events())
    return count


def serve(pipe: Connection) -> None:
    async def talk(exchange: Exchange) -> None:
        await exchange.send(accepting(exchange))
        for _ in range(MESSAGES // 20):
            await exchange.send(FRAMES)
        await exchange.send(close_frame(1000))

    async def main() -> None:
        async with hostile(talk) as server:
            pipe.send(server.port)
            await asyncio.Event().wait()

    uvloop.run(main())


if __name__ == "__main__":
    main()
