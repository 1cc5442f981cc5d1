"""Servers that do a WebSocket wrong: each ends with its reason, in bounded memory, and no other
WebSocket of the process waits for it."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from tests.support.net.clients import AGENT
from tests.support.net.hostile_server import Exchange, hostile
from tests.support.net.raw_websocket import (
    BINARY,
    CONT,
    PING,
    TEXT,
    accepting,
    close_frame,
    frame,
)
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.socket_ends import SlightFrames, SocketLimits
from trawlnet.net.client.websocket import WebSocket, open_websocket
from trawlnet.net.guard import Guard
from trawlnet.net.trouble import EXPECTED, TooLarge, Trouble, trouble_from

DEADLINE = 120.0
PATIENT = SocketLimits(connect=60.0, answer=60.0, quiet=60.0, sign=60.0, message=1_000_000)
# Only who waits in vain is waited for.
SHORT = replace(PATIENT, answer=1.0, quiet=0.5, sign=0.5)
MOST_MEMORY = 24 << 20  # Bytes, of client and server together.
LONGEST_TURN = 1.0  # Seconds of CPU for which nobody else has a turn; a tenth is usual.
NEIGHBOURS_MESSAGES = 200
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]

Talk = Callable[[Exchange], Awaitable[None]]


def after_switching(*parts: bytes) -> Talk:
    """Switches, sends this, and is silent."""

    async def talk(exchange: Exchange) -> None:
        await exchange.send(accepting(exchange), *parts)
        await asyncio.sleep(DEADLINE)

    return talk


def for_ever(part: bytes, first: bytes = b"") -> Talk:
    async def talk(exchange: Exchange) -> None:
        await exchange.send(accepting(exchange), first)
        while True:
            await exchange.send(part)
            await asyncio.sleep(0)

    return talk


def answering(head: bytes) -> Talk:
    async def talk(exchange: Exchange) -> None:
        await exchange.send(head)
        await asyncio.sleep(DEADLINE)

    return talk


async def endless_headers(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 101 Switching Protocols\r\n")
    while True:
        await exchange.send(b"X-More: " + b"y" * 1000 + b"\r\n")


async def slow_headers(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 101 Switching Protocols\r\n")
    while True:
        await exchange.send(b"X-Drip: 1\r\n")
        await asyncio.sleep(0.02)


async def slow_frame(exchange: Exchange) -> None:
    await exchange.send(accepting(exchange), frame(BINARY, b"x" * 900_000)[:100])
    while True:
        await exchange.send(b"x")
        await asyncio.sleep(0.02)


async def hangs_up(exchange: Exchange) -> None:
    await exchange.send(accepting(exchange) + frame(BINARY, b"whole") + b"\x82")


async def resets(exchange: Exchange) -> None:
    await exchange.send(accepting(exchange) + frame(BINARY, b"whole"))
    await asyncio.sleep(0.2)
    exchange.reset()


async def answers_nothing(exchange: Exchange) -> None:
    await asyncio.sleep(DEADLINE)


async def wrong_key(exchange: Exchange) -> None:
    head = accepting(exchange).replace(b"Accept: ", b"Accept: A")
    await exchange.send(head + frame(BINARY, b"not to be believed"))
    await asyncio.sleep(DEADLINE)


async def unasked_extension(exchange: Exchange) -> None:
    more = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
    await exchange.send(accepting(exchange, more=more) + frame(BINARY, b"x", bits=0x40))
    await asyncio.sleep(DEADLINE)


async def speaks_after_closing(exchange: Exchange) -> None:
    await exchange.send(accepting(exchange), close_frame(1008, b"FutureCursor"))
    while True:
        await exchange.send(frame(BINARY, b"too late" * 1000))


MASKED = bytes([0x82, 0x84, 1, 2, 3, 4]) + b"abcd"
TINY_PARTS = frame(CONT, b"x", fin=False) * 5000
OK_HEAD = b"HTTP/1.1 200 OK\r\n"

CASES: dict[str, tuple[Talk, SocketLimits, Reason, str]] = {
    "endless headers": (endless_headers, PATIENT, Reason.TOO_LARGE, "head of more than"),
    "slow headers": (slow_headers, SHORT, Reason.TIMEOUT, "no end within 1 s"),
    "no answer": (answers_nothing, SHORT, Reason.TIMEOUT, "no end within 1 s"),
    "wrong accept key": (wrong_key, PATIENT, Reason.CONNECTION_ERROR, "Sec-WebSocket-Accept"),
    "unasked extension": (unasked_extension, PATIENT, Reason.CONNECTION_ERROR, "no extensions"),
    "not switched": (
        answering(OK_HEAD + b"Content-Length: 99999999\r\n\r\n<html>"),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "answered 200 instead of opening a WebSocket",
    ),
    "not found": (
        answering(b"HTTP/1.1 404 Not Found\r\n\r\n"),
        PATIENT,
        Reason.NOT_FOUND,
        "answered 404",
    ),
    "rate limited": (
        answering(b"HTTP/1.1 429 Slow Down\r\nContent-Length: 0\r\n\r\n"),
        PATIENT,
        Reason.RATE_LIMITED,
        "answered 429",
    ),
    "redirected": (
        answering(b"HTTP/1.1 302 Found\r\nLocation: ws://10.0.0.1/\r\nContent-Length: 0\r\n\r\n"),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "redirected (302) to ws://10.0.0.1/; use that address instead",
    ),
    "not HTTP": (answering(b"SSH-2.0-x\r\n"), PATIENT, Reason.CONNECTION_ERROR, ""),
    "oversized frame": (
        after_switching(b"\x82\x7f" + (1 << 62).to_bytes(8, "big")),
        PATIENT,
        Reason.TOO_LARGE,
        "too large",
    ),
    "oversized in fragments": (
        for_ever(frame(CONT, b"x" * 50_000, fin=False), frame(BINARY, b"x", fin=False)),
        PATIENT,
        Reason.TOO_LARGE,
        "too large",
    ),
    "endless empty fragments": (
        for_ever(frame(CONT, fin=False) * 5000, frame(TEXT, fin=False)),
        PATIENT,
        Reason.TOO_LARGE,
        "small fragments without end",
    ),
    "endless tiny fragments": (
        for_ever(TINY_PARTS, frame(BINARY, b"x", fin=False)),
        PATIENT,
        Reason.TOO_LARGE,
        "small fragments without end",
    ),
    "flood of pings": (for_ever(frame(PING) * 5000), PATIENT, Reason.TOO_LARGE, "pings"),
    "flood of long pings": (
        for_ever(frame(PING, b"p" * 125) * 500),
        PATIENT,
        Reason.TOO_LARGE,
        "pings",
    ),
    "masked frame": (after_switching(MASKED), PATIENT, Reason.CONNECTION_ERROR, "masking"),
    "reserved bits": (
        after_switching(frame(BINARY, b"x", bits=0x40)),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "reserved bits",
    ),
    "unknown opcode": (after_switching(frame(5)), PATIENT, Reason.CONNECTION_ERROR, "opcode"),
    "fragments of two": (
        after_switching(frame(BINARY, b"a", fin=False) + frame(BINARY, b"b")),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "continuation",
    ),
    "fragment of nothing": (
        after_switching(frame(CONT, b"a")),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "continuation",
    ),
    "long ping": (
        after_switching(frame(PING, b"p" * 126)),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "control frame",
    ),
    "bad close code": (after_switching(close_frame(7)), PATIENT, Reason.CONNECTION_ERROR, "code"),
    "bad close reason": (
        after_switching(close_frame(1000, b"\xff\xfe")),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "not a WebSocket's frames",
    ),
    "bad text": (
        after_switching(frame(TEXT, b"\xff\xfe")),
        PATIENT,
        Reason.CONNECTION_ERROR,
        "not UTF-8",
    ),
    "half a frame": (
        after_switching(frame(BINARY, b"x" * 1000)[:500]),
        SHORT,
        Reason.TIMEOUT,
        "no whole frame within 1 s",
    ),
    "slow frame": (slow_frame, SHORT, Reason.TIMEOUT, "no whole frame within 1 s"),
    "hung up": (
        hangs_up,
        PATIENT,
        Reason.CONNECTION_ERROR,
        "ended the connection without closing",
    ),
    "reset": (resets, PATIENT, Reason.CONNECTION_ERROR, "the connection broke"),
    "speaks after closing": (
        speaks_after_closing,
        PATIENT,
        Reason.CONNECTION_ERROR,
        "closed the WebSocket: 1008 FutureCursor",
    ),
}


async def honest(exchange: Exchange) -> None:
    await exchange.send(accepting(exchange))
    for n in range(NEIGHBOURS_MESSAGES):
        await exchange.send(frame(BINARY, n.to_bytes(4, "big")))
        await asyncio.sleep(0)
    await asyncio.sleep(DEADLINE)


@asynccontextmanager
async def opened(talk: Talk, limits: SocketLimits = PATIENT) -> AsyncIterator[WebSocket]:
    guard = Guard(allow_private=True)
    async with hostile(talk) as server:
        url = f"ws://127.0.0.1:{server.port}/"
        async with open_websocket(url, agent=AGENT, guard=guard, limits=limits) as socket:
            yield socket


async def end_of(talk: Talk, limits: SocketLimits) -> Trouble:
    try:
        async with opened(talk, limits) as socket:
            while True:
                await socket.receive()
    except EXPECTED as error:
        return trouble_from(error, "ws://test")


async def neighbour() -> None:
    """Hears all that its server says, however the other one behaves."""
    async with opened(honest) as socket:
        for n in range(NEIGHBOURS_MESSAGES):
            assert await socket.receive() == n.to_bytes(4, "big")


async def longest_turn(is_over: asyncio.Event) -> float:
    """Seconds of CPU between two turns of this one."""
    longest, before = 0.0, time.process_time()
    while not is_over.is_set():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, before = max(longest, now - before), now
    return longest


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", CASES)
def test_it_ends_with_its_reason_and_holds_nobody_up(name: str, loop: Any) -> None:
    talk, limits, reason, words = CASES[name]

    async def main() -> tuple[Trouble, float]:
        is_over = asyncio.Event()
        turns = asyncio.ensure_future(longest_turn(is_over))
        beside = asyncio.ensure_future(neighbour())
        trouble = await end_of(talk, limits)
        await beside
        is_over.set()
        return trouble, await turns

    with asyncio.Runner(loop_factory=loop) as runner:
        tracemalloc.start()
        try:
            trouble, turn = runner.run(asyncio.wait_for(main(), DEADLINE))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (trouble.reason, words in trouble.detail) == (reason, True), trouble
    assert peak < MOST_MEMORY
    assert turn < LONGEST_TURN


@pytest.mark.parametrize("loop", LOOPS)
def test_a_flood_of_empty_messages_waits_for_its_reader(loop: Any) -> None:
    """They are messages, and so no fault; but no memory is filled with them, and neighbours are
    heard between them."""
    limits = replace(PATIENT, waiting=200_000)

    async def main() -> tuple[int, float]:
        is_over = asyncio.Event()
        turns = asyncio.ensure_future(longest_turn(is_over))
        async with opened(for_ever(frame(BINARY) * 20_000), limits) as socket:
            await neighbour()
            most = 0
            for _ in range(50_000):
                assert await socket.receive() == b""
                most = max(most, len(socket._messages))
        is_over.set()
        return most, await turns

    with asyncio.Runner(loop_factory=loop) as runner:
        most, turn = runner.run(asyncio.wait_for(main(), DEADLINE))
    assert most < 200_000 / 128 + 8200  # And what a slice holds.
    assert turn < LONGEST_TURN


def test_pongs_for_a_server_that_does_not_read_are_not_kept() -> None:
    """It pings as often as it may, and never reads: what waits for it stays small."""
    limits = replace(PATIENT, slight=200_000)
    ping = frame(PING, b"p" * 125)

    async def never_reads(exchange: Exchange) -> None:
        exchange.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await exchange.send(accepting(exchange))
        for _ in range(1000):
            await exchange.send(ping * 100)
            await asyncio.sleep(0)
        await exchange.send(frame(TEXT, b"done"))
        await asyncio.sleep(DEADLINE)

    async def main() -> int:
        async with opened(never_reads, limits) as socket:
            assert await socket.receive() == "done"
            return socket._transport.get_write_buffer_size()

    assert asyncio.run(asyncio.wait_for(main(), DEADLINE)) < 256 * 1024


@pytest.mark.slow
def test_slight_frames_have_an_allowance_that_grows() -> None:
    limits = SocketLimits(slight=100, slight_rate=10.0)
    slight = SlightFrames(limits, 0.0)
    slight.count(100, 0, 0.0)
    slight.count(10, 0, 1.0)  # Earned by waiting,
    slight.count(5, 5 * 1024, 1.0)  # and by messages.
    with pytest.raises(TooLarge):
        slight.count(1, 0, 1.0)
    rested = SlightFrames(limits, 0.0)
    with pytest.raises(TooLarge):
        rested.count(101, 0, 1000.0)  # No more is saved up than that.
