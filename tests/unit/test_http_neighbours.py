"""What a hostile server sends, wherever in its answer, is paid for by nobody else: the loop stays
free, the CPU and the memory stay small, and other hosts' answers come."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.net.certificates import self_signed
from tests.support.net.clients import AGENT, CountedTurns
from tests.support.net.hostile_positions import BOMBS, HONEST, POSITIONS, Ports, positions_served
from trawlnet.engine.outcome import Reason
from trawlnet.net.client import framing
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http

LIMITS = RequestLimits(total=100.0, wire=1 << 20, inflated=1 << 20)  # In vain waits only a failure.
HOSTILE = 8  # Connections at a time.
HONEST_ASKED = 20  # Requests at least.

# CPU of this process, which a busy machine hardly stretches. Measured: 0.03 seconds for an answer
# of tiny chunks and less for others, 0.02 for a turn of the loop.
CPU_EACH = 0.15  # Seconds for a hostile answer,
CPU_ITERATION = 0.1  # and for one turn of the loop, all connections together.
MEMORY = 64 << 20  # Bytes.


class WatchedLoop(asyncio.SelectorEventLoop):
    """Knows the longest of its turns, in CPU seconds, and how far memory rose at the end of one."""

    longest = 0.0
    begun_with = 0
    peak = 0

    def _run_once(self) -> None:
        before = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest = max(self.longest, time.thread_time() - before)
        self.peak = max(self.peak, resident_bytes())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    certificate = self_signed(tmp_path_factory.mktemp("tls"))
    with pytest.MonkeyPatch.context() as patch, positions_served(certificate) as ports:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        yield ports


@pytest.fixture
def port(ports: Ports) -> int:
    return ports.plain


def judged(asking: Any, hostile_answers: int) -> list[Reason]:
    """The reasons of the hostile answers, after everybody else was found to be well."""
    gc.collect()
    loop = WatchedLoop()
    began, cpu = resident_bytes(), time.process_time()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        reasons = runner.run(asyncio.wait_for(asking, 120.0))
    assert time.process_time() - cpu < 2.0 + CPU_EACH * hostile_answers
    assert loop.longest < CPU_ITERATION
    assert loop.peak - began < MEMORY
    return reasons


async def among_honest(
    port: int, paths: list[str], limits: RequestLimits = LIMITS, stem: str = ""
) -> list[Reason]:
    """`stem` of the hostile URLs, if that is another server's."""
    guard = Guard(allow_private=True)
    async with Http(CountedTurns(), SystemClock(), AGENT, guard=guard, limits=limits) as http:

        async def ask(path: str) -> Reason:
            return (await http.get(f"{stem or f'http://127.0.0.1:{port}'}{path}")).reason

        hostile = asyncio.gather(*map(ask, paths))
        asked = 0
        while asked < HONEST_ASKED or not hostile.done():
            answer = await http.get(f"http://127.0.0.1:{port}/honest/")
            assert isinstance(answer, Response), answer
            assert answer.body == HONEST
            asked += 1
        return await hostile


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("habit", ["endless", "oversized"])
def test_too_much_at_any_position_costs_nobody_else(habit: str, name: str, port: int) -> None:
    paths = [f"/{habit}/{name}"] * HOSTILE
    assert set(judged(among_honest(port, paths), len(paths))) == {Reason.TOO_LARGE}


def test_drips_at_every_position_end_at_the_deadline(port: int) -> None:
    paths = [f"/drip/{name}" for name in POSITIONS]
    limits = RequestLimits(total=1.0, wire=8 << 20, inflated=8 << 20)
    assert set(judged(among_honest(port, paths, limits), len(paths))) == {Reason.TIMEOUT}


@pytest.mark.parametrize("habit", ["endless", "oversized"])
def test_too_much_at_any_position_costs_nobody_else_over_tls(habit: str, ports: Ports) -> None:
    paths = [f"/{habit}/{name}" for name in POSITIONS]
    asking = among_honest(ports.plain, paths, stem=f"https://127.0.0.1:{ports.tls}")
    assert set(judged(asking, len(paths))) == {Reason.TOO_LARGE}


def test_drips_at_every_position_end_at_the_deadline_over_tls(ports: Ports) -> None:
    paths = [f"/drip/{name}" for name in POSITIONS]
    limits = RequestLimits(total=1.0, wire=8 << 20, inflated=8 << 20)
    asking = among_honest(ports.plain, paths, limits, f"https://127.0.0.1:{ports.tls}")
    assert set(judged(asking, len(paths))) == {Reason.TIMEOUT}


def test_a_handshake_that_drips_ends_at_the_deadline(ports: Ports) -> None:
    limits = RequestLimits(total=60.0, connect=1.0)
    stem = f"https://127.0.0.1:{ports.dripping}"
    asking = among_honest(ports.plain, ["/honest/"] * HOSTILE, limits, stem)
    assert set(judged(asking, HOSTILE)) == {Reason.TIMEOUT}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("coding", BOMBS)
def test_a_bomb_bursts_at_its_limit(coding: str, scheme: str, ports: Ports) -> None:
    """64 MB of zeros, in a few hundred bytes or a few hundred thousand."""
    stem = f"{scheme}://127.0.0.1:{ports.plain if scheme == 'http' else ports.tls}"
    path = coding.replace(", ", "+")
    paths = [f"/bomb200/{path}", f"/bomb404/{path}"] * (HOSTILE // 2)
    reasons = judged(among_honest(ports.plain, paths, stem=stem), len(paths))
    assert reasons[1::2] == [Reason.NOT_FOUND] * (HOSTILE // 2)  # Of an error, as much as is kept.
    assert set(reasons[::2]) <= {Reason.TOO_LARGE, Reason.PARSE_ERROR}
    assert Reason.TOO_LARGE in reasons or ", " in coding


def record(kind: int, content: bytes) -> bytes:
    return bytes([kind, 3, 3]) + len(content).to_bytes(2, "big") + content


HANDSHAKES = {
    "no_tls": b"HTTP/1.1 400 plain\r\n" * 500,
    "hello_requests": record(22, bytes(16384)),
    "empty_records": record(22, b"") * 1000,
    "hello_of_any_length": record(22, b"\x02\xff\xff\xff" + bytes(16380)),
    "hello_in_pieces": record(22, b"\x02") + record(22, b"\0") * 1000,
    "cipher_changes": record(20, b"\x01") * 1000,
    "warnings": record(21, b"\x01\x00") * 1000,
    "text_before_its_time": record(23, bytes(16384)),
}


@contextmanager
def tls_served(context: ssl.SSLContext | None, endless: bytes = b"") -> Iterator[int]:
    """A port where TLS is agreed on and nothing said, or raw bytes are sent without an end."""

    def serve(connection: socket.socket) -> None:
        try:
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            while connection.recv(65536) and endless:
                while True:
                    connection.sendall(endless)
        except OSError:
            pass  # The client has had enough.
        finally:
            connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


async def over_tls(tls: int, port: int, limits: RequestLimits, times: int) -> list[Reason]:
    guard = Guard(allow_private=True)
    async with Http(CountedTurns(), SystemClock(), AGENT, guard=guard, limits=limits) as http:

        async def ask() -> Reason:
            return (await http.get(f"https://127.0.0.1:{tls}/")).reason

        hostile = asyncio.gather(*(ask() for _ in range(times)))
        assert set(await among_honest(port, [])) <= {Reason.OK}
        return await hostile


@pytest.mark.parametrize("name", HANDSHAKES)
def test_a_handshake_of_too_much_is_over_before_its_deadline(name: str, port: int) -> None:
    with tls_served(None, HANDSHAKES[name]) as tls:
        limits = RequestLimits(total=100.0, connect=60.0)
        reasons = judged(over_tls(tls, port, limits, HOSTILE), HOSTILE)
    assert set(reasons) == {Reason.CONNECTION_ERROR}


@pytest.mark.slow
def test_tls_records_that_say_nothing_are_counted(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setattr(framing, "_TLS_SLACK", 1 << 20)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.num_tickets = 1_000_000  # A quarter of a gigabyte of session tickets.
    with tls_served(context) as tls:
        assert judged(over_tls(tls, port, LIMITS, 1), 1) == [Reason.TOO_LARGE]
