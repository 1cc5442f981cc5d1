"""Each hostile habit ends in its own Reason, within the deadline, and in bounded memory."""

from __future__ import annotations

import asyncio
import errno
import gzip
import socket
import ssl
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import brotli
import pytest
import uvloop
import zstandard

from tests.support.net.certificates import self_signed
from tests.support.net.clients import AGENT, CountedTurns, Visit, visit
from tests.support.net.hostile_server import Exchange, Script
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits, Response, outcome_of
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.trouble import ConnectionDropped, Trouble, clean, reason_for_status, trouble_from
from trawlnet.sim.spoiling import gzip_bomb, zstd_bomb

HEAD = b"HTTP/1.1 200 OK\r\n"
# Only who waits in vain is waited for; all else ends by itself, however busy the machine is.
PATIENT = RequestLimits(total=30.0, wire=200_000, inflated=1_000_000)
SHORT = replace(PATIENT, total=1.0)


async def for_ever(exchange: Exchange, part: bytes, pause: float = 0.0) -> None:
    while True:
        await exchange.send(part)
        await asyncio.sleep(pause)


async def says_nothing(exchange: Exchange) -> None:
    await asyncio.sleep(60)


async def slow_headers(exchange: Exchange) -> None:
    await exchange.send(HEAD)
    await for_ever(exchange, b"X-Drip: 1\r\n", pause=0.02)


async def drips_its_body(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: 100000\r\n\r\n")
    await for_ever(exchange, b"x", pause=0.02)


async def stops_in_its_body(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: 100\r\n\r\nhalf")
    await asyncio.sleep(60)


async def endless_headers(exchange: Exchange) -> None:
    await exchange.send(HEAD)
    await for_ever(exchange, b"X-More: " + b"y" * 1000 + b"\r\n")


async def endless_header(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"X-Long: ")
    await for_ever(exchange, b"y" * 10_000)


async def endless_status_line(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 ")
    await for_ever(exchange, b"OK" * 5_000)


async def flood_of_1xx(exchange: Exchange) -> None:
    await for_ever(exchange, b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)


async def endless_body(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"\r\n")
    await for_ever(exchange, b"z" * 60_000)


async def endless_chunks(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await for_ever(exchange, b"3e8\r\n" + b"z" * 1000 + b"\r\n")


async def announces_too_much(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: 99999999999\r\n\r\n")
    await asyncio.sleep(60)


async def ends_before_its_length(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: 100\r\n\r\nhalf")


async def ends_within_a_chunk(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\nhalf")


async def ends_between_chunks(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")


async def bad_chunk_size(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
    await asyncio.sleep(0.05)
    await exchange.send(b"zz\r\n")


async def resets_in_its_body(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: 100\r\n\r\nhalf")
    await asyncio.sleep(0.05)
    exchange.reset()


async def resets_at_once(exchange: Exchange) -> None:
    exchange.reset()


async def hangs_up_at_once(exchange: Exchange) -> None:
    return


async def is_not_http(exchange: Exchange) -> None:
    await exchange.send(b"220 mail.example.org ESMTP\r\n")


async def two_lengths(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nhalfx")


async def negative_length(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: -4\r\n\r\nhalf")


async def runs_over_its_length(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Content-Length: 4\r\n\r\nhalf and more")


async def body_after_304(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody")


async def header_without_a_name(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"no colon here\r\nContent-Length: 4\r\n\r\nhalf")


async def endless_trailers(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n")
    await for_ever(exchange, b"X-More: " + b"y" * 1000 + b"\r\n")


async def endless_chunk_extension(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4;x=")
    await for_ever(exchange, b"y" * 10_000)


async def tiny_chunks_in_large_wrapping(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await for_ever(exchange, b"1;x=" + b"y" * 5_000 + b"\r\nz\r\n")


async def endless_trailer_value(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX-More: ")
    await for_ever(exchange, b"y" * 10_000)


async def endless_trailer_name(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n")
    await for_ever(exchange, b"y" * 10_000)


async def trailer_without_an_end_after_a_large_body(exchange: Exchange) -> None:
    chunk = b"2710\r\n" + b"z" * 10_000 + b"\r\n"
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 15 + b"0\r\nA: ")
    await for_ever(exchange, b"y" * 10_000)


async def endless_chunk_size(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await for_ever(exchange, b"0" * 10_000)


async def endless_1xx_head(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 103 Early Hints\r\n")
    await for_ever(exchange, b"Link: " + b"y" * 1000 + b"\r\n")


async def chunks_that_double_their_bytes(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await for_ever(exchange, b"1\r\nz\r\n" * 1000)


async def error_page_in_endless_framing(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n1;")
    await for_ever(exchange, b"y" * 10_000)


async def drips_its_trailers(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nX: ")
    await for_ever(exchange, b"y", pause=0.02)


async def drips_its_framing(exchange: Exchange) -> None:
    await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n4;")
    await for_ever(exchange, b"y", pause=0.02)


async def drips_1xx(exchange: Exchange) -> None:
    await for_ever(exchange, b"HTTP/1.1 102 Wait\r\n\r\n", pause=0.02)


def coded(*lines: bytes, body: bytes = b"4\r\nhalf\r\n0\r\n\r\n") -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"\r\n".join([HEAD[:-2], *lines, b"", b""]), body)

    return script


def encoded(name: str, body: bytes, *, length: int | None = None) -> Script:
    async def script(exchange: Exchange) -> None:
        size = len(body) if length is None else length
        head = f"Content-Encoding: {name}\r\nContent-Length: {size}\r\n\r\n"
        await exchange.send(HEAD + head.encode() + body)

    return script


TEXT = b"worth having " * 1000
HABITS: list[tuple[Any, Reason]] = [
    (says_nothing, Reason.TIMEOUT),
    (slow_headers, Reason.TIMEOUT),
    (drips_its_body, Reason.TIMEOUT),
    (stops_in_its_body, Reason.TIMEOUT),
    (drips_its_trailers, Reason.TIMEOUT),
    (drips_its_framing, Reason.TIMEOUT),
    (drips_1xx, Reason.TIMEOUT),
    (flood_of_1xx, Reason.TOO_LARGE),
    (endless_1xx_head, Reason.TOO_LARGE),
    (endless_chunk_extension, Reason.TOO_LARGE),
    (endless_chunk_size, Reason.TOO_LARGE),
    (tiny_chunks_in_large_wrapping, Reason.TOO_LARGE),
    (chunks_that_double_their_bytes, Reason.TOO_LARGE),
    (endless_trailer_value, Reason.TOO_LARGE),
    (endless_trailer_name, Reason.TOO_LARGE),
    (trailer_without_an_end_after_a_large_body, Reason.TOO_LARGE),
    (endless_trailers, Reason.TOO_LARGE),
    (endless_headers, Reason.TOO_LARGE),
    (endless_header, Reason.TOO_LARGE),
    (endless_status_line, Reason.TOO_LARGE),
    (endless_body, Reason.TOO_LARGE),
    (endless_chunks, Reason.TOO_LARGE),
    (announces_too_much, Reason.TOO_LARGE),
    (ends_before_its_length, Reason.TRUNCATED),
    (ends_within_a_chunk, Reason.TRUNCATED),
    (ends_between_chunks, Reason.TRUNCATED),
    (bad_chunk_size, Reason.TRUNCATED),
    (resets_in_its_body, Reason.TRUNCATED),
    (resets_at_once, Reason.CONNECTION_ERROR),
    (hangs_up_at_once, Reason.CONNECTION_ERROR),
    (is_not_http, Reason.CONNECTION_ERROR),
    (two_lengths, Reason.CONNECTION_ERROR),
    (negative_length, Reason.CONNECTION_ERROR),
    (runs_over_its_length, Reason.CONNECTION_ERROR),
    (body_after_304, Reason.CONNECTION_ERROR),
    (header_without_a_name, Reason.CONNECTION_ERROR),
]
CODED: list[tuple[str, bytes, Reason]] = [
    ("gzip", gzip.compress(TEXT, mtime=0)[:-20], Reason.TRUNCATED),
    ("br", brotli.compress(TEXT)[:-3], Reason.TRUNCATED),
    ("zstd", zstandard.compress(TEXT)[:-3], Reason.TRUNCATED),
    ("gzip", b"<html>plain</html>" * 20, Reason.PARSE_ERROR),
    ("br", b"\xff<html>plain</html>" * 20, Reason.PARSE_ERROR),
    ("zstd", b"<html>plain</html>" * 20, Reason.PARSE_ERROR),
    ("deflate", b"<html>plain</html>" * 20, Reason.PARSE_ERROR),
    ("gzip, gzip", gzip.compress(gzip.compress(TEXT, mtime=0), mtime=0), Reason.PARSE_ERROR),
    ("rot13", TEXT, Reason.PARSE_ERROR),
]


def meet(
    script: Script, limits: RequestLimits = PATIENT, new_loop: Any = None
) -> Response | Trouble:
    """Ask once; however it ends, in one request with one turn, and not long after the deadline."""

    async def act(v: Visit) -> Response | Trouble:
        started = time.monotonic()
        answer = await v.get()
        assert time.monotonic() - started < limits.total + 20.0, "servers wait for a minute"
        assert v.server.requests == len(v.turns.lanes) == 1
        return answer

    return visit(script, act, limits=limits, new_loop=new_loop)


@pytest.mark.parametrize(
    ("script", "reason"), HABITS, ids=[script.__name__ for script, _ in HABITS]
)
@pytest.mark.parametrize("new_loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_each_hostile_habit_has_its_reason(script: Script, reason: Reason, new_loop: Any) -> None:
    answer = meet(script, SHORT if reason is Reason.TIMEOUT else PATIENT, new_loop)
    assert isinstance(answer, Trouble)
    assert answer.reason is reason
    assert 0 < len(answer.detail) <= 200
    assert answer.detail.isprintable()
    assert outcome_of(answer).reason is reason


@pytest.mark.parametrize(("name", "body", "reason"), CODED)
def test_each_badly_coded_body_has_its_reason(name: str, body: bytes, reason: Reason) -> None:
    assert meet(encoded(name, body)).reason is reason


def test_an_error_page_in_endless_framing_is_an_error_page() -> None:
    answer = meet(error_page_in_endless_framing)
    assert isinstance(answer, Response)
    assert answer.reason is Reason.UNAVAILABLE


TE = b"Transfer-Encoding: "
GZIPPED = gzip.compress(TEXT, mtime=0)
FRAMINGS: list[tuple[Script, Reason]] = [
    (coded(TE + b"gzip", body=GZIPPED), Reason.PARSE_ERROR),
    (
        coded(TE + b"gzip, chunked", body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(GZIPPED), GZIPPED)),
        Reason.PARSE_ERROR,
    ),
    (coded(TE + b"gzip", TE + b"chunked"), Reason.PARSE_ERROR),
    (coded(TE + b"chunked", TE + b"gzip"), Reason.PARSE_ERROR),
    (coded(TE + b"chunked", TE + b"chunked"), Reason.PARSE_ERROR),
    (coded(TE + b"chunked, chunked"), Reason.PARSE_ERROR),
    (coded(TE + b"chunked, identity"), Reason.PARSE_ERROR),
    (coded(TE + b"xchunked"), Reason.PARSE_ERROR),
    (coded(TE + b"chunked;q=1"), Reason.PARSE_ERROR),
    (coded(TE + b",chunked"), Reason.PARSE_ERROR),
    (coded(TE + b"\x0bchunked"), Reason.PARSE_ERROR),
    (coded(TE + b'"chunked"'), Reason.PARSE_ERROR),
    (coded(TE + b"chun", b" ked"), Reason.PARSE_ERROR),
    (coded(TE + b"identity"), Reason.PARSE_ERROR),
    (coded(TE), Reason.CONNECTION_ERROR),
    (coded(TE + b"chunked", b"Content-Length: 4"), Reason.CONNECTION_ERROR),
    (coded(b"Content-Length: 4", TE + b"chunked"), Reason.CONNECTION_ERROR),
    (coded(b"Content-Length: 4", TE + b"identity"), Reason.CONNECTION_ERROR),
    (coded(b"Content-Length: 4", b"Content-Length: 4", body=b"half"), Reason.CONNECTION_ERROR),
    (coded(b"Content-Length: 4, 4", body=b"half"), Reason.CONNECTION_ERROR),
    (coded(b"Content-Length: +4", body=b"half"), Reason.CONNECTION_ERROR),
    (coded(b"Content-Length: 0x4", body=b"half"), Reason.CONNECTION_ERROR),
]


@pytest.mark.parametrize(("script", "reason"), FRAMINGS, ids=range(len(FRAMINGS)))
def test_framing_that_can_be_read_in_two_ways_is_refused(script: Script, reason: Reason) -> None:
    assert meet(script).reason is reason


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (b"transfer-encoding:\tChunked ", b"4\r\nhalf\r\n0\r\n\r\n"),
        (b"Transfer-Encoding : chunked", b"4 \r\nhalf\r\n0\r\n\r\n"),
        (b"Content-Length : 4", b"half"),
        (b"Content-Length:\t4 \t", b"half"),
        (b"Content-Length: 0004", b"half"),
    ],
)
def test_blanks_in_the_head_do_not_move_the_end_of_a_body(line: bytes, body: bytes) -> None:
    async def script(exchange: Exchange) -> None:
        exchange.keep = True
        await exchange.send(HEAD + line + b"\r\n\r\n")
        await asyncio.sleep(0.02)  # The body comes by itself: not the parser counts it then.
        await exchange.send(body)

    async def act(v: Visit) -> None:
        for _ in range(2):
            assert (await v.get()).body == b"half"
        assert v.server.connections == 1

    visit(script, act)


def test_chunks_from_a_server_of_http_1_0_end_its_connection() -> None:
    async def script(exchange: Exchange) -> None:
        exchange.keep = True
        lines = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
        await exchange.send(lines + b"4\r\nhalf\r\n0\r\n\r\n")

    async def act(v: Visit) -> None:
        for _ in range(2):
            assert (await v.get()).body == b"half"
        assert v.server.connections == 2

    visit(script, act)


def test_framing_counts_as_bytes_on_the_wire() -> None:
    body = b"z" * 40_000

    async def script(exchange: Exchange) -> None:
        framed = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        await exchange.send(HEAD + TE + b"chunked\r\n\r\n" + framed + b"0\r\n\r\n")

    fits = meet(script, replace(PATIENT, wire=6 * len(body) + 10))
    assert isinstance(fits, Response)
    assert (fits.body, fits.wire_bytes) == (body, len(body))
    assert meet(script, replace(PATIENT, wire=4 * len(body))).reason is Reason.TOO_LARGE


@pytest.mark.parametrize("coding", [b"gzip", b"xchunked"])
def test_an_error_status_stands_whatever_its_transfer_coding(coding: bytes) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 503 Busy\r\n" + TE + coding + b"\r\n\r\n<html>")

    assert meet(script).reason is Reason.UNAVAILABLE


def brotli_bomb(mebibytes: int) -> bytes:
    deflater = brotli.Compressor(quality=5)
    zeros = bytes(1 << 20)
    first, more = [deflater.process(zeros) + deflater.flush() for _ in range(2)]
    return bytes(first + more * (mebibytes - 1) + deflater.finish())


BOMBS = [
    ("gzip", b"".join(gzip_bomb(160 << 20))),
    ("zstd", b"".join(zstd_bomb(1 << 30))),
    ("br", brotli_bomb(10 << 10)),
]


@pytest.mark.parametrize(("name", "body"), BOMBS, ids=["gzip", "zstd", "br"])
def test_a_bomb_costs_its_cap_and_no_more(name: str, body: bytes) -> None:
    tracemalloc.start()
    try:
        answer = meet(encoded(name, body), RequestLimits(total=30.0, inflated=4 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.reason is Reason.TOO_LARGE
    assert peak < 24 << 20


def test_an_endless_stream_is_never_held_in_memory() -> None:
    async def act(v: Visit) -> int:
        limits = RequestLimits(total=20.0, wire=64 << 20)
        total = 0
        async with v.http.stream(v.server.url(), limits=limits) as stream:
            async for chunk in stream:
                if isinstance(chunk, Trouble):
                    assert chunk.reason is Reason.TOO_LARGE
                else:
                    total += len(chunk)
        return total

    tracemalloc.start()
    try:
        total = visit(endless_body, act)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 60 << 20 < total <= 64 << 20
    assert peak < 4 << 20


def test_bytes_beyond_the_length_never_become_the_next_answer() -> None:
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    sent = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=f"true {exchange.path}".encode())
        await asyncio.sleep(0.02)
        await exchange.send_whole(forged)
        sent.set()

    async def act(v: Visit) -> list[bytes]:
        bodies = []
        for path in ("/1", "/2", "/3"):
            sent.clear()
            bodies.append((await v.get(path)).body)
            await sent.wait()
            await asyncio.sleep(0.05)  # The forged answer arrives while the connection is idle.
        assert v.server.requests == len(v.turns.lanes)
        return bodies

    assert visit(script, act) == [b"true /1", b"true /2", b"true /3"]


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_a_body_where_there_must_be_none_is_left_alone(status: str) -> None:
    sent = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        exchange.keep = True
        await exchange.send(f"HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\n".encode())
        await asyncio.sleep(0.01)
        await exchange.send_whole(b"body")
        sent.set()

    async def act(v: Visit) -> None:
        for _ in range(3):
            sent.clear()
            answer = await v.get()
            assert (str(answer.status), answer.body) == (status[:3], b"")
            await sent.wait()
            await asyncio.sleep(0.02)

    visit(script, act)


@pytest.mark.parametrize("coding", [b"gzip", b"rot13", b"gzip, gzip"])
def test_an_error_status_stands_however_its_page_is_served(coding: bytes) -> None:
    async def script(exchange: Exchange) -> None:
        head = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Encoding: " + coding
        await exchange.send(head + b"\r\nContent-Length: 999999999\r\n\r\n<html>")

    answer = meet(script)
    assert isinstance(answer, Response)
    outcome = outcome_of(answer)
    assert (outcome.reason, outcome.wait) == (Reason.UNAVAILABLE, 7.0)


def test_of_a_huge_error_page_a_little_is_kept() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 404 No\r\n\r\n")
        await for_ever(exchange, b"z" * 60_000)

    answer = meet(script)
    assert isinstance(answer, Response)
    assert (answer.reason, len(answer.body)) == (Reason.NOT_FOUND, 64 * 1024)


def test_a_closed_port_is_a_connection_error() -> None:
    async def act(v: Visit) -> Trouble:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            return await v.http.get(f"http://127.0.0.1:{closed.getsockname()[1]}/")

    answer = visit(hangs_up_at_once, act, guard=Guard(allow_private=True))
    assert answer.reason is Reason.CONNECTION_ERROR


def test_tls_to_a_plain_port_is_a_connection_error() -> None:
    async def run() -> Trouble:
        server = await asyncio.start_server(_says_plain, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            guard = Guard(allow_private=True)
            async with Http(CountedTurns(), SystemClock(), AGENT, guard=guard) as http:
                answer = await http.get(f"https://127.0.0.1:{port}/")
        assert isinstance(answer, Trouble)
        return answer

    assert asyncio.run(run()).reason is Reason.CONNECTION_ERROR


async def _says_plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 plain port\r\n\r\n")
    writer.close()


def test_a_host_that_never_accepts_ends_at_the_connect_deadline() -> None:
    async def run() -> Trouble:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            crowd = [socket.socket() for _ in range(4)]
            for each in crowd:
                each.setblocking(False)
                each.connect_ex(full.getsockname())
            limits = RequestLimits(total=20.0, connect=0.3)
            guard = Guard(allow_private=True)
            http = Http(CountedTurns(), SystemClock(), AGENT, guard=guard, limits=limits)
            async with http:
                answer = await http.get(f"http://127.0.0.1:{full.getsockname()[1]}/")
            for each in crowd:
                each.close()
        assert isinstance(answer, Trouble)
        return answer

    started = time.monotonic()
    assert asyncio.run(run()).reason is Reason.TIMEOUT
    assert time.monotonic() - started < 15.0, "not the deadline of the whole"


def test_a_name_that_does_not_resolve_is_a_dns_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)

    async def act(v: Visit) -> Trouble:
        return await v.http.get("http://gone.test/")

    assert visit(hangs_up_at_once, act, guard=Guard()).reason is Reason.DNS_ERROR


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENETUNREACH])
def test_a_shortage_of_this_machine_is_blamed_on_nobody_else(number: int) -> None:
    cause = OSError(number, "shortage")
    error = ConnectionDropped("cannot connect")
    error.__cause__ = cause
    assert trouble_from(error, "").reason is Reason.UNKNOWN


def test_broken_tls_is_a_connection_error() -> None:
    assert trouble_from(ssl.SSLError(1, "bad record"), "").reason is Reason.CONNECTION_ERROR


def test_a_bug_is_not_taken_for_the_networks_trouble() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer()

    async def act(v: Visit) -> None:
        async with v.http.stream(v.server.url()):
            raise KeyError("bug")

    with pytest.raises(KeyError):
        visit(script, act)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, Reason.OK),
        (206, Reason.OK),
        (304, Reason.NOT_MODIFIED),
        (302, Reason.HTTP_ERROR),
        (400, Reason.HTTP_ERROR),
        (403, Reason.HTTP_ERROR),
        (404, Reason.NOT_FOUND),
        (410, Reason.NOT_FOUND),
        (429, Reason.RATE_LIMITED),
        (500, Reason.UNAVAILABLE),
        (599, Reason.UNAVAILABLE),
        (999, Reason.HTTP_ERROR),
        (101, Reason.HTTP_ERROR),
    ],
)
def test_each_status_has_its_reason(status: int, reason: Reason) -> None:
    assert reason_for_status(status) is reason


def test_a_remotes_words_are_cut_and_cleaned() -> None:
    assert clean("a\x1b[31mb\r\nc\x00d\u202ee\ud800f") == "a [31mb c d e f"
    assert len(clean("x" * 10_000)) == 200


def test_an_answer_of_switched_protocols_is_an_http_error() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n")
        await exchange.send(b"Connection: upgrade\r\n\r\n" + b"noise" * 100)

    assert meet(script).reason is Reason.HTTP_ERROR


def test_an_untrusted_certificate_is_a_connection_error(tmp_path: Path) -> None:
    async def run() -> Trouble:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self_signed(tmp_path))
        server = await asyncio.start_server(_says_plain, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            guard = Guard(allow_private=True)
            async with Http(CountedTurns(), SystemClock(), AGENT, guard=guard) as http:
                answer = await http.get(f"https://127.0.0.1:{port}/")
        assert isinstance(answer, Trouble)
        return answer

    answer = asyncio.run(run())
    assert answer.reason is Reason.CONNECTION_ERROR
    assert "certificate" in answer.detail
