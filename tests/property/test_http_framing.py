"""Responses cut anywhere, mutated anyhow: the same answer, or one that trouble has a name for."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.net.client.connection import SCRATCH, Connection
from trawlnet.net.client.dial import Endpoint
from trawlnet.net.client.patience import Patience
from trawlnet.net.trouble import EXPECTED

PLACE = Endpoint("a.test", 80, False)


class Wire:
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        self.is_paused = False

    def write(self, data: bytes) -> None:
        assert data == b"GET"

    def abort(self) -> None:
        self.is_paused = False

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False


def answered(parts: list[bytes], way: str, *, ends: bool) -> tuple[int, bytes] | str:
    """Status and body, or which trouble there was."""

    async def run() -> tuple[int, bytes] | str:
        connection, wire = Connection(PLACE, memoryview(bytearray(SCRATCH))), Wire()
        untyped: Any = wire
        connection.connection_made(untyped)

        async def feed() -> None:
            for part in parts:
                while part and connection.is_open:
                    await asyncio.sleep(0)
                    if wire.is_paused:
                        continue
                    memory = connection.get_buffer(-1)
                    size = min(len(memory), len(part))
                    assert size, "no room is offered"
                    memory[:size], part = part[:size], part[size:]
                    connection.buffer_updated(size)
            await asyncio.sleep(0)
            if ends or not connection.is_open:
                connection.connection_lost(None)

        feeding = asyncio.create_task(feed())
        try:
            async with asyncio.timeout(60):
                await connection.ask(b"GET", 4096, Patience(60.0))
                return connection.status, await body_of(connection, way)
        except EXPECTED as error:
            return type(error).__name__
        finally:
            await feeding

    return asyncio.run(run())


async def body_of(connection: Connection, way: str) -> bytes:
    if way == "rest":
        return await connection.rest()
    if way == "fill" and connection.length is not None and connection.length < 1 << 20:
        body = bytearray(connection.length)
        await connection.fill(memoryview(body))
        return bytes(body)
    pieces = []
    while piece := await connection.piece():
        pieces.append(piece)
    return b"".join(pieces)


WAYS = st.sampled_from(["rest", "fill", "pieces"])


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, int, bytes]:
    status = draw(st.sampled_from([200, 206, 404, 503]))
    body = draw(st.binary(max_size=200)) * draw(st.sampled_from([1, 1, 7, 3000]))
    head = b"HTTP/1.1 %d Any\r\nX-A: b\r\n" % status
    if draw(st.booleans()):
        hint = b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n"
        head = hint * draw(st.integers(1, 3)) + head
    if draw(st.booleans()):
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body, status, body
    size = draw(st.integers(1, max(1, len(body))))
    chunks = (
        [body[at : at + size] for at in range(0, len(body), size)] if len(body) < 999 else [body]
    )
    framed = b"".join(b"%x;q=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return (
        head + b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\nT: u\r\n\r\n",
        status,
        body,
    )


@pytest.mark.parametrize("way", ["rest", "fill", "pieces"])
def test_bytes_beyond_a_length_are_no_answer_wherever_they_are_cut(way: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
    assert answered([head + b"half!"], way, ends=False) == "BadAnswer"
    if way != "fill":  # There the memory ends where the body does: see the next test.
        assert answered([head, b"ha", b"lf!"], way, ends=False) == "BadAnswer"


@pytest.mark.parametrize(
    "second", [b"200 OK\r\nContent-Length: 0", b"101 Go\r\nUpgrade: x\r\nConnection: Upgrade"]
)
def test_a_second_answer_in_the_same_bytes_is_no_answer(second: bytes) -> None:
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhalf"
    raw = first + b"HTTP/1.1 " + second + b"\r\n\r\n"
    assert answered([raw], "rest", ends=False) == "BadAnswer"


def test_bytes_that_nobody_asked_for_end_a_connection() -> None:
    async def run() -> bool:
        connection, wire = Connection(PLACE, memoryview(bytearray(SCRATCH))), Wire()
        untyped: Any = wire
        connection.connection_made(untyped)
        asking = asyncio.create_task(connection.ask(b"GET", 4096, Patience(60.0)))
        await asyncio.sleep(0)
        for raw in (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhalf", b"H"):
            assert connection.is_open
            connection.get_buffer(-1)[: len(raw)] = raw
            connection.buffer_updated(len(raw))
        await asking
        return connection.is_open or connection.is_reusable

    assert not asyncio.run(run())


def cut(data: bytes, places: list[float]) -> list[bytes]:
    at = sorted({0, len(data), *(int(place * len(data)) for place in places)})
    return [data[low:high] for low, high in pairwise(at)]


PLACES = st.lists(st.floats(0, 1), max_size=12)


@given(responses(), PLACES, WAYS)
def test_a_response_is_the_same_wherever_it_is_cut(
    response: tuple[bytes, int, bytes], places: list[float], way: str
) -> None:
    data, status, body = response
    assert answered(cut(data, places), way, ends=False) == (status, body)


@given(responses(), PLACES, WAYS, st.data())
@settings(max_examples=300)
def test_a_mutated_response_is_an_answer_or_a_known_trouble(
    response: tuple[bytes, int, bytes], places: list[float], way: str, data: st.DataObject
) -> None:
    bent = bytearray(response[0])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(bent) - 1))
        match data.draw(st.sampled_from(["change", "cut", "repeat"])):
            case "change":
                bent[at] = data.draw(st.integers(0, 255))
            case "cut":
                del bent[at : at + data.draw(st.integers(1, 40))]
            case _:
                bent[at:at] = bent[at : at + data.draw(st.integers(1, 40))]
        bent = bent or bytearray(b"x")
    assert answered(cut(bytes(bent), places), way, ends=True) != "TimeoutError"
