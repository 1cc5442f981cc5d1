"""A long body wakes its reader a few times, not for each packet; and nothing waits for ever."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvloop

from tests.support.net.clients import Visit, visit
from tests.support.net.hostile_server import Exchange
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits
from trawlnet.net.client.connection import Connection
from trawlnet.net.client.low_water import SocketLowWater
from trawlnet.net.trouble import Trouble

LOOPS = pytest.mark.parametrize(
    "new_loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
PIECE = b"p" * 10_000
BODY = PIECE * 90


async def in_pieces(exchange: Exchange) -> None:
    """Slowly enough that each piece could be read by itself."""
    exchange.keep = True
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    for _ in range(90):
        await exchange.send(PIECE)
        await asyncio.sleep(0.001)


@LOOPS
def test_a_long_body_wakes_its_reader_seldom(
    new_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakes: list[int] = []
    received = Connection.buffer_updated

    def counted(connection: Connection, nbytes: int) -> None:
        wakes.append(nbytes)
        received(connection, nbytes)

    async def act(v: Visit) -> None:
        async with v.http.stream(v.server.url()) as stream:
            assert not isinstance(stream, Trouble)
            memory = bytearray(len(BODY))
            assert await stream.fill(memory) is None
            assert memory == BODY

    monkeypatch.setattr(Connection, "buffer_updated", counted)
    visit(in_pieces, act, new_loop=new_loop)
    assert sum(wakes) > len(BODY)
    assert len(wakes) < 20


@LOOPS
def test_a_short_answer_after_a_long_body_is_not_waited_for_in_vain(new_loop: Any) -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.path == "/long":
            await in_pieces(exchange)
        else:
            await exchange.answer(body=b"short")

    async def act(v: Visit) -> None:
        for _ in range(2):
            async with v.http.stream(v.server.url("/long")) as stream:
                assert not isinstance(stream, Trouble)
                assert await stream.fill(bytearray(len(BODY))) is None
            assert (await v.get("/short")).body == b"short"
        assert v.server.connections == 1

    visit(script, act, new_loop=new_loop)


@LOOPS
def test_a_body_that_stops_on_its_way_is_given_up_in_time(new_loop: Any) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + BODY)
        await asyncio.sleep(30)

    async def act(v: Visit) -> None:
        limits = RequestLimits(total=2.0)  # Enough for the head on a busy machine.
        async with v.http.stream(v.server.url(), limits=limits) as stream:
            assert not isinstance(stream, Trouble)
            trouble = await stream.fill(bytearray(3_000_000))
            assert trouble is not None and trouble.reason is Reason.TIMEOUT

    visit(script, act, new_loop=new_loop)


def mark_of(made: socket.socket) -> int:
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_the_mark_follows_what_is_left_and_goes_back_to_one() -> None:
    with socket.socket() as made:
        mark = SocketLowWater(made)
        marks = []
        for left in (50_000_000, 400_000, 0):
            mark.set(left)
            marks.append(mark_of(made))
        assert marks == [1 << 20, 400_000, 1]
    mark.set(10)  # Closed meanwhile: the transport says so, in its own time.
