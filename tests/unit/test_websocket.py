"""A WebSocket that is listened to: every message in order, and each end in clear words."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from websockets.asyncio.server import ServerConnection, serve

from tests.support.net.certificates import self_signed
from tests.support.net.clients import AGENT
from tests.support.net.hostile_server import Exchange, hostile
from tests.support.net.raw_websocket import BINARY, accepting, close_frame, frame
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.socket_ends import SocketLimits
from trawlnet.net.client.websocket import WebSocket, open_websocket
from trawlnet.net.guard import AddressRefused, Guard
from trawlnet.net.trouble import EXPECTED, ConnectionDropped, Trouble, trouble_from

LIMITS = SocketLimits(connect=60.0, answer=60.0)
DEADLINE = 120.0
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def run(main: Any, loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop) -> Any:
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(asyncio.wait_for(main, DEADLINE))


def opened(url: str, limits: SocketLimits = LIMITS, **guard: Any) -> Any:
    return open_websocket(
        url, agent=AGENT, guard=Guard(**(guard or {"allow_private": True})), limits=limits
    )


async def to_the_end(socket: WebSocket) -> tuple[list[bytes | str], Trouble]:
    """Every message, and why there are no more."""
    messages: list[bytes | str] = []
    try:
        while True:
            messages.append(await socket.receive())
    except EXPECTED as error:
        return messages, trouble_from(error, "ws://test")


@asynccontextmanager
async def aiohttp_server(
    talk: Callable[[web.WebSocketResponse, web.BaseRequest], Awaitable[None]],
    secure: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(compress=True)
        await socket.prepare(request)
        await talk(socket, request)
        return socket

    server = web.Server(answer)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=secure)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


MESSAGES: list[bytes | str] = [
    b"",
    b"\x00" * 125,
    "text, auch mit Umlauten: äöü 🦀",
    bytes(range(256)) * 300,
    "",
    b"x" * 1_000_000,
    "y" * 70_000,
]


@pytest.mark.parametrize("loop", LOOPS)
def test_all_messages_of_an_aiohttp_server_come_in_order(loop: Any) -> None:
    async def talk(socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        for message in MESSAGES * 5:
            if isinstance(message, str):
                await socket.send_str(message)
            else:
                await socket.send_bytes(message)
        await socket.close(code=1001, message=b"going\x1b[31m away")

    async def main() -> None:
        async with aiohttp_server(talk) as port, opened(f"ws://127.0.0.1:{port}/x?cursor=7") as ws:
            messages, trouble = await to_the_end(ws)
        assert messages == MESSAGES * 5
        assert trouble.reason is Reason.CONNECTION_ERROR
        assert trouble.detail == "the server closed the WebSocket: 1001 going [31m away"

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_fragmented_message_of_another_server_is_put_together(loop: Any) -> None:
    async def talk(connection: ServerConnection) -> None:
        await connection.send([b"one ", b"", b"message", b"!" * 5000])
        await connection.ping()
        await connection.send(["zw", "ei: ä"])

    async def main() -> None:
        async with serve(talk, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with opened(f"ws://127.0.0.1:{port}/") as ws:
                messages, trouble = await to_the_end(ws)
        assert messages == [b"one message" + b"!" * 5000, "zwei: ä"]
        assert trouble.detail == "the server closed the WebSocket: 1000"

    run(main(), loop)


def test_it_says_who_asks_and_offers_no_compression() -> None:
    seen: list[Exchange] = []

    async def talk(exchange: Exchange) -> None:
        seen.append(exchange)
        await exchange.send(accepting(exchange) + close_frame(1000))

    async def main() -> None:
        async with (
            hostile(talk) as server,
            opened(f"ws://127.0.0.1:{server.port}/a/b?c=%20d") as ws,
        ):
            await to_the_end(ws)

    run(main())
    assert seen[0].path == "/a/b?c=%20d"
    assert seen[0].headers["user-agent"] == AGENT
    assert "sec-websocket-extensions" not in seen[0].headers
    assert "sec-websocket-protocol" not in seen[0].headers


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("size", [10, 5_000, 50_000, 300_000])
def test_messages_that_come_with_the_answer_are_not_lost(loop: Any, size: int) -> None:
    """The head and what follows may be in one packet, of any size."""
    sent = [bytes([n]) * size for n in range(5)]

    async def talk(exchange: Exchange) -> None:
        head = accepting(exchange, more=f"X-Padding: {'x' * 20_000}\r\n")
        frames = b"".join(frame(BINARY, message) for message in sent)
        await exchange.send(head + frames + close_frame(1000))

    async def main() -> None:
        async with hostile(talk) as server, opened(f"ws://127.0.0.1:{server.port}/") as ws:
            messages, _ = await to_the_end(ws)
        assert messages == sent

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_over_tls_a_certificate_of_strangers_is_refused_and_a_known_one_is_not(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate)

    async def talk(socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        for message in MESSAGES:
            if isinstance(message, bytes):
                await socket.send_bytes(message)
        await socket.close()

    async def main() -> None:
        async with aiohttp_server(talk, secure) as port:
            with pytest.raises(ssl.SSLCertVerificationError):
                async with opened(f"wss://127.0.0.1:{port}/"):
                    pass
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            async with opened(f"wss://127.0.0.1:{port}/") as ws:
                messages, trouble = await to_the_end(ws)
            assert messages == [m for m in MESSAGES if isinstance(m, bytes)]
            assert "closed the WebSocket" in trouble.detail

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_giving_up_to_wait_loses_no_message(loop: Any) -> None:
    """A reader with a deadline, which comes and goes between, before and while messages come."""
    count = 2000

    async def talk(exchange: Exchange) -> None:
        await exchange.send(accepting(exchange))
        for n in range(count):
            whole = frame(BINARY, n.to_bytes(4, "big"))
            await exchange.send(whole[:3])
            await asyncio.sleep(0)
            await exchange.send(whole[3:])
        await exchange.send(close_frame(1000))

    async def main() -> None:
        got: list[int] = []
        gave_up = 0
        async with hostile(talk) as server, opened(f"ws://127.0.0.1:{server.port}/") as ws:
            with pytest.raises(ConnectionDropped):
                while True:
                    waiting = asyncio.ensure_future(ws.receive())
                    for _ in range((len(got) + gave_up) % 4):
                        await asyncio.sleep(0)
                    waiting.cancel()
                    try:
                        message = await waiting
                    except asyncio.CancelledError:
                        gave_up += 1
                        continue
                    got.append(int.from_bytes(message, "big"))
                    try:
                        async with asyncio.timeout(0.0005):
                            got.append(int.from_bytes(await ws.receive(), "big"))
                    except TimeoutError:
                        gave_up += 1
        assert got == list(range(count))
        assert gave_up > 0

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reader_that_is_slow_makes_the_server_wait(loop: Any) -> None:
    limits = replace(LIMITS, waiting=1 << 20)
    message = b"m" * 10_000
    sent = 0

    async def talk(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send(accepting(exchange))
        for _ in range(10_000):  # 100 MB: more than kernels hold.
            await exchange.send(frame(BINARY, message))
            sent += 1
        await exchange.send(close_frame(1000))

    async def main() -> None:
        async with hostile(talk) as server, opened(f"ws://127.0.0.1:{server.port}/", limits) as ws:
            before = -1
            while sent != before:  # Until nothing moves any more.
                before = sent
                await asyncio.sleep(0.3)
            assert 0 < sent < 9_000
            assert ws._waiting < limits.waiting + 300_000
            messages, _ = await to_the_end(ws)
        assert messages == [message] * 10_000

    run(main(), loop)


def test_a_quiet_server_that_answers_pings_is_kept() -> None:
    limits = replace(LIMITS, quiet=0.2, sign=60.0)

    async def talk(connection: ServerConnection) -> None:
        await asyncio.sleep(1.5)
        await connection.send("after a long silence")

    async def main() -> None:
        async with serve(talk, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with opened(f"ws://127.0.0.1:{port}/", limits) as ws:
                assert await ws.receive() == "after a long silence"
                assert ws._seen > 2  # Pongs came before.

    run(main())


def test_leaving_tells_the_server() -> None:
    codes: list[int | None] = []
    is_over = asyncio.Event()

    async def talk(socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        await socket.send_str("hello")
        async for _ in socket:
            pass
        codes.append(socket.close_code)
        is_over.set()

    async def main() -> None:
        async with aiohttp_server(talk) as port:
            async with opened(f"ws://127.0.0.1:{port}/") as ws:
                assert await ws.receive() == "hello"
            with pytest.raises(ConnectionDropped, match="we closed"):
                await ws.receive()
            await is_over.wait()

    run(main())
    assert codes == [1000]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.org/", "ws:// or wss://"),
        ("example.org", "ws:// or wss://"),
        ("ws://127.0.0.1/", "loopback"),
        ("ws://localhost/", "loopback"),
        ("wss://10.1.2.3/", "private"),
        ("ws://example.org:8080/", "port 8080 not allowed"),
        ("ws://user:secret@example.org/", "password"),
    ],
)
def test_what_the_guard_refuses_is_not_dialled(url: str, why: str) -> None:
    async def main() -> None:
        async with opened(url, allow_private=False):
            pass

    with pytest.raises(AddressRefused, match=why):
        run(main())
