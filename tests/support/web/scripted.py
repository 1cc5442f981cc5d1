"""Web hosts whose every answer a test writes down, crawled in virtual time over real sockets.

Each host is an address of its own on loopback, so that no two of them share a pace.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from trawlnet.crawlers.web.build import RunRequest, open_crawl
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.plan import engine_limits
from trawlnet.crawlers.web.presets import beneath
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import crawl
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts, Failure, Ledger
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.virtual import SimLoop

T = TypeVar("T")
EPOCH = 1_700_000_000.0  # Virtual time begins here.
_SETTLED = 0.001  # Real seconds without any traffic, before virtual time moves on.
_MOST_HEAD = 64 << 10


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=_SocketLoop) as runner:
        return runner.run(main)


class VirtualClock:
    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class _SocketLoop(SimLoop):
    """Time stands still while bytes are on their way."""

    def __init__(self) -> None:
        super().__init__()
        self._selector: selectors.BaseSelector = _PatientSelector(self)
        # The base class has registered its wake-up pipe with the selector that it was given.
        self._selector.register(self._ssock, selectors.EVENT_READ, _reader_of(self))  # type: ignore[attr-defined]


def _reader_of(loop: Any) -> Any:
    handle = asyncio.Handle(loop._read_from_self, (), loop, None)
    return (handle, None)


class _PatientSelector(selectors.DefaultSelector):
    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        events = super().select(0) or super().select(_SETTLED)
        if events:
            return events
        if timeout is None:
            raise RuntimeError("deadlock: every task is waiting and no timer is set")
        self._loop.pass_time(timeout)
        return []


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    latency: float = 0.0  # Virtual seconds before the first byte.
    raw: bytes | None = None  # Sent instead of all this; then the connection is closed.
    wait: float | None = None  # What the headers say about when to come back, in whatever form.

    def wire(self) -> bytes:
        if self.raw is not None:
            return self.raw
        lines = [f"HTTP/1.1 {self.status} X", f"Content-Length: {len(self.body)}"]
        if self.content_type:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        head = "\r\n".join(lines) + "\r\n\r\n"
        # As servers write what does not fit into a header.
        return head.encode("latin-1" if max(head) <= "\xff" else "utf-8") + self.body


def page(*links: str, text: str = "") -> Answer:
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    return Answer(body=f"<html><body><p>{text}</p>{anchors}</body></html>".encode())


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as its server saw it."""

    host: str
    target: str
    began: float
    ended: float  # When the last byte of the answer had been written.
    status: int  # 0 for an answer that is no HTTP.
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0  # Seconds that it was asked to stay away.


Answers = Callable[[str, str, int, float], Answer]  # Host, target, how often asked before, now.


class ScriptedWeb:
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._times: Counter[tuple[str, str]] = Counter()
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.log: list[Asked] = []

    def url(self, host: str, target: str = "/") -> str:
        return f"http://{host}:{self.port}{target}"

    def asked(self, target: str) -> int:
        return sum(one.target == target for one in self.log)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        clock = VirtualClock()
        began, target = clock.now(), head[0].split(" ")[1]
        headers = {n.lower(): v.strip() for n, _, v in (h.partition(":") for h in head[1:]) if n}
        host = writer.get_extra_info("sockname")[0]
        answer = self._answers(host, target, self._times[host, target], began)
        self._times[host, target] += 1
        etag = dict(answer.headers).get("ETag")
        if etag and headers.get("if-none-match") == etag:
            answer = Answer(304, content_type="", headers=answer.headers)
        if answer.latency:
            await asyncio.sleep(answer.latency)
        try:
            writer.write(answer.wire())
            await writer.drain()
        finally:
            status, wait = answer.status if answer.raw is None else 0, _wait_of(answer)
            self.log.append(Asked(host, target, began, clock.now(), status, headers, wait))
        return answer.raw is None

    def hang_up(self) -> None:
        for writer in self._open:
            writer.close()


def _wait_of(answer: Answer) -> float:
    told = dict(answer.headers).get("Retry-After", "")
    return answer.wait if answer.wait is not None else float(told) if told.isdigit() else 0.0


@asynccontextmanager
async def scripted_web(hosts: Sequence[str], answers: Answers) -> AsyncIterator[ScriptedWeb]:
    world = ScriptedWeb(answers)
    sockets: list[socket.socket] = []
    for host in hosts:
        sockets.append(_bound(host, sockets[0].getsockname()[1] if sockets else 0))
    world.port = sockets[0].getsockname()[1]
    servers = [await asyncio.start_server(world.serve, sock=s, limit=_MOST_HEAD) for s in sockets]
    try:
        yield world
    finally:
        for server in servers:
            server.close()
        world.hang_up()


def _bound(host: str, port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    return sock


BASIC: dict[str, Any] = {
    "allow_private_hosts": True,
    "robots": {"user_agent": "trawlnet/1.0 (+https://example.org/bot)"},
    "limits": {"req_per_sec": 1.0, "global_concurrency": 8},
    "caps": {"max_depth": None},
    "trajectory": {"enabled": False},
}


def basic_config(**more: Any) -> WebConfig:
    return WebConfig.model_validate(beneath(BASIC, more))


@dataclass(frozen=True, slots=True)
class Crawled:
    ending: Ending
    counts: Counts
    failures: dict[str, Failure]
    seconds: float  # Virtual.


async def crawl_scripted(
    config: WebConfig, workspace: Path, seeds: Sequence[str], run: str = "r1"
) -> Crawled:
    clock = VirtualClock()
    begun = clock.now()
    opened = open_crawl(
        config, workspace, clock, CrawlMetrics("web", clock), RunRequest(run, tuple(seeds))
    )
    async with opened as parts:
        control = Control(config.limits.global_concurrency)
        ending = await crawl(parts, engine_limits(config), control)
        store: Ledger = parts.store  # type: ignore[assignment]
        failures = {one.key: one async for one in store.failures()}
        return Crawled(ending, await store.counts(), failures, clock.now() - begun)


def reasons(done: Crawled) -> Counter[Reason]:
    return Counter(one.reason for one in done.failures.values())
