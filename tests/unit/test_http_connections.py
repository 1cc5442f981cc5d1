"""Connections: kept, dropped, tunnelled, and read by slow and hasty readers."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.support.net.certificates import self_signed
from tests.support.net.clients import AGENT, CountedTurns, Visit, visit
from tests.support.net.hostile_server import Exchange, hostile
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.client.dial import GuardedResolver, Pools
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.trouble import Trouble, Unresolved

LOOPS = pytest.mark.parametrize(
    "new_loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
HEAD = b"HTTP/1.1 200 OK\r\n"
OPEN = Guard(allow_private=True)


async def hello(exchange: Exchange) -> None:
    await exchange.answer(body=b"hello")


def client(**options: Any) -> Http:
    return Http(CountedTurns(), SystemClock(), AGENT, guard=OPEN, **options)


@LOOPS
@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
@pytest.mark.parametrize("framing", ["length", "chunked", "to the end"])
def test_a_body_arrives_whole_however_it_is_framed(size: int, framing: str, new_loop: Any) -> None:
    body = bytes(n * 7 % 251 for n in range(1000)) * (size // 1000) + b"x" * (size % 1000)

    async def script(exchange: Exchange) -> None:
        if framing == "length":
            await exchange.answer(body=body)
        elif framing == "chunked":
            exchange.keep = True
            await exchange.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            for start in range(0, size, 70_001):
                part = body[start : start + 70_001]
                await exchange.send(b"%x\r\n" % len(part), part, b"\r\n")
            await exchange.send(b"0\r\nX-Trailer: ignored\r\n\r\n")
        else:
            await exchange.send(HEAD + b"\r\n" + body)

    async def act(v: Visit) -> None:
        for _ in range(2):
            answer = await v.get()
            assert (answer.status, answer.wire_bytes) == (200, size)
            assert answer.body == body
            assert "X-Trailer" not in answer.headers
        assert v.server.connections == (2 if framing == "to the end" else 1)

    visit(script, act, new_loop=new_loop)


@LOOPS
def test_a_reader_slower_than_the_server_gets_every_byte(new_loop: Any) -> None:
    body = b"".join(n.to_bytes(4, "big") for n in range(1_000_000))

    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=body)

    async def act(v: Visit) -> bytes:
        taken = []
        async with v.http.stream(v.server.url()) as stream:
            assert not isinstance(stream, Trouble)
            async for piece in stream:
                assert isinstance(piece, bytes)
                taken.append(piece)
                await asyncio.sleep(0.001)
        assert (await v.get()).body == body  # Over the same connection, read in haste.
        assert v.server.connections == 1
        return b"".join(taken)

    assert visit(script, act, new_loop=new_loop) == body


@LOOPS
@pytest.mark.parametrize("size", [1, 1000, 3_000_000])
def test_a_body_of_known_size_is_received_where_it_is_to_stay(size: int, new_loop: Any) -> None:
    body = bytes(n % 251 for n in range(size))

    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=body)

    async def act(v: Visit) -> None:
        for _ in range(2):
            async with v.http.stream(v.server.url()) as stream:
                assert not isinstance(stream, Trouble)
                assert stream.announced == size
                memory = bytearray(size)
                assert await stream.fill(memory) is None
                assert memory == body
                assert (stream.wire_bytes, stream.inflated_bytes) == (size, size)
                assert [piece async for piece in stream] == []
        assert v.server.connections == 1

    visit(script, act, new_loop=new_loop)


@LOOPS
@pytest.mark.parametrize("size", [100, 1_000_000])
@pytest.mark.parametrize("rudely", [False, True])
def test_a_body_that_falls_short_of_its_memory_is_truncated(
    rudely: bool, size: int, new_loop: Any
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(HEAD + b"Content-Length: %d\r\n\r\nhalf" % size)
        await asyncio.sleep(0.02)
        await exchange.send(b" and some more")
        if rudely:
            exchange.reset()

    async def act(v: Visit) -> None:
        async with v.http.stream(v.server.url()) as stream:
            assert not isinstance(stream, Trouble)
            trouble = await stream.fill(bytearray(size))
            assert trouble is not None and trouble.reason is Reason.TRUNCATED
            assert rudely or stream.wire_bytes == len("half and some more")
        assert (await v.get()).reason is Reason.TRUNCATED, "the connection was not used again"
        assert v.server.connections == 2

    visit(script, act, new_loop=new_loop)


def test_bytes_beyond_the_memory_of_a_body_never_become_the_next_answer() -> None:
    sent = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=b"x" * 3_000_000)
        await exchange.send_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        sent.set()

    async def act(v: Visit) -> None:
        for _ in range(3):
            sent.clear()
            async with v.http.stream(v.server.url()) as stream:
                assert not isinstance(stream, Trouble)
                memory = bytearray(3_000_000)
                assert await stream.fill(memory) is None
                assert memory == b"x" * 3_000_000
            await sent.wait()
            await asyncio.sleep(0.02)

    visit(script, act)


@LOOPS
def test_a_server_that_speaks_first_is_a_connection_error(new_loop: Any) -> None:
    async def mail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        await reader.read()
        writer.close()

    async def run() -> list[Reason]:
        server = await asyncio.start_server(mail, "127.0.0.1", 0)
        async with server, client() as http:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            return [(await http.get(url)).reason for _ in range(5)]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(asyncio.wait_for(run(), 60.0)) == [Reason.CONNECTION_ERROR] * 5


def test_heads_in_single_bytes_are_read() -> None:
    async def script(exchange: Exchange) -> None:
        exchange.keep = True
        for byte in HEAD + b"Content-Length: 2\r\nX-Odd: caf\xc3\xa9\r\n\r\nok":
            await exchange.send(bytes([byte]))
            await asyncio.sleep(0)

    async def act(v: Visit) -> None:
        for _ in range(2):
            answer = await v.get()
            assert (answer.body, answer.headers["x-odd"]) == (b"ok", "café")
        assert v.server.connections == 1

    visit(script, act)


def test_hints_before_the_answer_are_passed_over() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n")
        await exchange.answer(body=b"hello")

    async def act(v: Visit) -> None:
        for _ in range(2):
            answer = await v.get()
            assert (answer.status, answer.body, "Link" in answer.headers) == (200, b"hello", False)
        assert v.server.connections == 1

    visit(script, act)


def test_a_connection_that_the_server_wants_closed_is_not_kept() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(body=b"hello", Connection="close")

    async def act(v: Visit) -> None:
        for _ in range(3):
            assert (await v.get()).body == b"hello"
        assert (v.server.connections, v.server.requests) == (3, 3)

    visit(script, act)


def test_an_idle_connection_is_dropped_when_its_time_is_over() -> None:
    async def act(v: Visit) -> None:
        await v.get()
        await asyncio.sleep(0.15)
        await v.get()
        assert v.server.connections == 2

    visit(hello, act, pools=Pools(idle=0.05))


def test_the_connection_that_was_idle_for_longest_makes_room() -> None:
    async def run() -> int:
        async with hostile(hello, host="0.0.0.0") as server, client(pools=Pools(kept=2)) as http:
            for n in (1, 2, 1, 3, 1):
                await http.get(server.url(host=f"127.0.0.{n}"))
            return server.connections

    assert asyncio.run(run()) == 3


def test_a_name_is_looked_up_once_for_all_who_wait_and_then_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def lookup(host: str, *_: object, **__: object) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)

    async def run() -> None:
        resolver = GuardedResolver(OPEN, Pools(names=1), deadline=5.0)
        many = await asyncio.gather(*(resolver.resolve("a.test", port) for port in range(80, 90)))
        assert [found[0][4] for found in many] == [("127.0.0.1", port) for port in range(80, 90)]
        await resolver.resolve("a.test", 80)
        assert asked == ["a.test"]
        await resolver.resolve("b.test", 80)
        await resolver.resolve("a.test", 80)
        assert asked == ["a.test", "b.test", "a.test"]
        await resolver.close()

    asyncio.run(run())


def test_a_failed_lookup_is_not_remembered_and_whoever_gives_up_spoils_it_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [OSError(-2, "unknown"), [info("1.1.1.1")]]

    def lookup(*_: object, **__: object) -> list[Any]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return list(answer)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)

    async def run() -> None:
        resolver = GuardedResolver(Guard(), Pools(), deadline=5.0)
        with pytest.raises(Unresolved, match=r"a\.test"):
            await resolver.resolve("a.test", 80)
        first, second = [asyncio.create_task(resolver.resolve("a.test", 80)) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        assert (await second)[0][4] == ("1.1.1.1", 80)
        await resolver.close()

    asyncio.run(run())


def info(address: str) -> tuple[object, ...]:
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))


@pytest.fixture
def certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certificate for 127.0.0.1 that this test trusts."""
    file = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    return file


Served = Callable[[int], Awaitable[None]]


async def over_tls(certificate: Path, act: Served, size: int = 1_000_000) -> None:
    """Runs `act` with the port of a server that sends so many bytes to whoever asks."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % size + b"t" * size)
            await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        await act(server.sockets[0].getsockname()[1])


@LOOPS
def test_a_trusted_server_is_read_over_tls(certified: Path, new_loop: Any) -> None:
    async def act(port: int) -> None:
        async with client() as http:
            for _ in range(2):
                answer = await http.get(f"https://127.0.0.1:{port}/")
                assert isinstance(answer, Response)
                assert answer.body == b"t" * 1_000_000
            async with http.stream(f"https://127.0.0.1:{port}/") as stream:
                assert not isinstance(stream, Trouble)
                memory = bytearray(stream.announced or 0)
                assert await stream.fill(memory) is None
                assert memory == answer.body

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(over_tls(certified, act))


@LOOPS
def test_tls_goes_through_a_proxy_by_a_tunnel(certified: Path, new_loop: Any) -> None:
    asked: list[list[bytes]] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                piece = await reader.read(65536)
            except OSError:
                piece = b""
            if not piece:
                writer.close()
                return
            writer.write(piece)
            await writer.drain()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        asked.append(lines)
        port = int(lines[0].split()[1].rpartition(b":")[2])
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(relay(reader, far_writer), relay(far_reader, writer))

    async def act(port: int) -> None:
        server = await asyncio.start_server(proxy, "127.0.0.1", 0)
        way = f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, client(proxy_for=lambda host: way) as http:
            for _ in range(2):
                answer = await http.get(f"https://127.0.0.1:{port}/")
                assert isinstance(answer, Response), answer
                assert answer.body == b"t" * 1_000_000
        assert len(asked) == 1
        assert asked[0][0] == b"CONNECT 127.0.0.1:%d HTTP/1.1" % port
        assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in asked[0]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(over_tls(certified, act))


def test_a_proxy_that_leads_nowhere_is_a_connection_error() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer("407 Who are you", body=b"<html>")

    async def act(v: Visit) -> Reason:
        answer = await v.http.get("https://far.test/")
        assert v.server.paths == ["far.test:443"]
        assert "407" in answer.detail
        return answer.reason

    async def run() -> Reason:
        async with hostile(script) as server:
            way = f"http://127.0.0.1:{server.port}"
            turns = CountedTurns()
            options: Any = {"guard": OPEN, "proxy_for": lambda host: way}
            async with Http(turns, SystemClock(), AGENT, **options) as http:
                return await act(Visit(http, server, turns))

    assert asyncio.run(run()) is Reason.CONNECTION_ERROR


def test_a_plain_request_through_a_proxy_names_its_whole_url_and_no_secret_of_the_proxy() -> None:
    async def run() -> bytes:
        async with hostile(hello) as server:
            way = f"http://me:secret@127.0.0.1:{server.port}"
            async with client(proxy_for=lambda host: way) as http:
                await http.get("http://far.test/a?b=c")
            return server.heads[0]

    head = asyncio.run(run())
    assert head.startswith(b"GET http://far.test/a?b=c HTTP/1.1\r\nHost: far.test\r\n")
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in head
    assert b"secret" not in head


def test_a_proxy_on_a_private_network_is_no_reason_to_crawl_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookup = socket.getaddrinfo

    def to_loopback(host: str, *rest: Any, **more: Any) -> Any:
        return lookup("127.0.0.1" if host.endswith(".test") else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", to_loopback)

    async def run() -> None:
        async with hostile(hello) as server:
            ways = {
                "far.example": f"http://127.0.0.1:{server.port}",
                "off.example": f"http://proxy.test:{server.port}",
            }
            # Its port is no obstacle: what is private is the address.
            options: Any = {"guard": Guard(ports=frozenset({80, server.port}))}
            http = Http(CountedTurns(), SystemClock(), AGENT, proxy_for=ways.get, **options)
            async with http:
                for host in ways:
                    answer = await http.get(f"http://{host}/")
                    assert isinstance(answer, Response), answer
                # Neither by its address, nor by a name that leads there, nor through itself.
                for url in (server.url(), f"http://proxy.test:{server.port}/"):
                    assert (await http.get(url)).reason is Reason.REFUSED
            options["proxy_for"] = lambda host: ways["far.example"]
            async with Http(CountedTurns(), SystemClock(), AGENT, **options) as http:
                assert (await http.get(server.url())).reason is Reason.REFUSED
            assert server.requests == 2

    asyncio.run(run())


@LOOPS
def test_a_tls_handshake_without_an_end_is_given_up_at_the_connect_deadline(new_loop: Any) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def run() -> Trouble:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server, client(limits=RequestLimits(total=90.0, connect=0.2)) as http:
            answer = await http.get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        assert isinstance(answer, Trouble)
        return answer

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(asyncio.wait_for(run(), 60.0)).reason is Reason.TIMEOUT
