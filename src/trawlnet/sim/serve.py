"""Many loopback hosts in one server: bind addresses, answer by address, log, close at once."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import TextIOBase
from pathlib import Path

from aiohttp import web

from trawlnet.engine.ports import Clock
from trawlnet.sim.spoiling import Severed

LOOPBACK = "127.0.0.1"
_HOSTS_PER_BLOCK = 250
_LARGEST_BLOCK = 255
_BACKLOG = 512
_PORT_TRIES = 50
_CLOSE_ROUNDS = 10
_CLOSE_PATIENCE = 3.0  # Seconds for handlers to end once their connection is gone.


@dataclass(frozen=True, slots=True)
class Call:
    """One request as a world sees it."""

    request: web.BaseRequest
    host: str  # The local address that was called.
    port: int
    turn: int  # How many requests that host and port had before.
    now: float
    since: float = 0.0  # It cannot have arrived before this instant; 0 where nobody wants to know.


Answer = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Served:
    """What is being served; `close` ends every connection, finished or not."""

    places: Sequence[tuple[str, int]]
    turns: Counter[tuple[str, int]]
    _server: web.Server
    _listeners: Sequence[asyncio.Server]
    _log: RequestLog | None = None
    _looks: Looks | None = None

    @property
    def port(self) -> int:
        return self.places[0][1]

    async def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        # A connection that was being accepted turns up a few turns of the loop later.
        for _ in range(_CLOSE_ROUNDS):
            for connection in self._server.connections:
                # A polite close would wait for bytes that a stalled client never reads.
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)
        await self._server.shutdown(_CLOSE_PATIENCE)
        if self._log is not None:
            self._log.close()
        if self._looks is not None:
            self._looks.close()


async def serve(
    answer: Answer,
    sockets: Sequence[socket.socket],
    *,
    clock: Clock,
    latency: float = 0.0,
    log: Path | None = None,
) -> Served:
    """Answer on bound sockets; `latency` seconds pass before each answer is begun."""
    turns: Counter[tuple[str, int]] = Counter()
    record = RequestLog.open(log) if log is not None else None
    looks = Looks(clock) if record is not None else None

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client left")
        host, port = transport.get_extra_info("sockname")[:2]
        turn = turns[host, port]
        turns[host, port] = turn + 1
        call = Call(request, host, port, turn, clock.now(), looks.since() if looks else 0.0)
        if latency > 0.0:
            await asyncio.sleep(latency)
        try:
            if record is None:
                return await answer(call)
            return await _recorded(call, answer, record, clock)
        except ConnectionError:
            # The client left in the middle of an answer; that is its right, not an error to log.
            return Severed()

    # Without cancellation a client that gave up on a stalled host would leave its handler behind.
    server = web.Server(handle, handler_cancellation=True, access_log=None)
    loop = asyncio.get_running_loop()
    listeners = [await loop.create_server(server, sock=one, backlog=_BACKLOG) for one in sockets]
    places = [one.getsockname()[:2] for one in sockets]
    return Served(places, turns, server, listeners, record, looks)


async def _recorded(
    call: Call, answer: Answer, record: RequestLog, clock: Clock
) -> web.StreamResponse:
    status = 0  # What is written when the client left before the answer was whole.
    try:
        response = await answer(call)
        try:
            # Sending here instead of after the handler lets the log know when it was done.
            await response.prepare(call.request)
            await response.write_eof()
        except ConnectionError:
            pass
        status = response.status
        return response
    finally:
        record.add(call, status, clock.now())


class Looks:
    """When the event loop last looked at its sockets. One that is busy, or has no processor, stamps
    a request later than it came; the time of its previous check bounds how much later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[float] = deque([clock.now()], _ROUNDS)
        self._next = asyncio.get_running_loop().call_soon(self._look)

    def since(self) -> float:
        return self._seen[0]

    def close(self) -> None:
        self._next.cancel()

    def _look(self) -> None:
        self._seen.append(self._clock.now())
        self._next = asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)


_LOOK_EVERY = 0.001  # Seconds.
_ROUNDS = 8  # Of the loop from a connection in the kernel's queue to the handler of its request.


@dataclass(slots=True)
class RequestLog:
    """JSON lines `{time, since, end, host, port, path, status}`: what the server saw, in order of
    ends.

    It arrived between `since` and `time`. `end` is when the last byte was handed to the kernel.
    Status 0: the client left; 444: the
    host cut the connection before a status line.
    """

    _file: TextIOBase
    _lines: list[str] = field(default_factory=list)
    _batch: int = 256

    @classmethod
    def open(cls, path: Path) -> RequestLog:
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls(path.open("a", encoding="utf-8"))

    def add(self, call: Call, status: int, end: float) -> None:
        row = {
            "time": round(call.now, 6),
            "since": round(call.since, 6),
            "end": round(end, 6),
            "host": call.host,
            "port": call.port,
            "path": call.request.raw_path,
            "status": status,
        }
        self._lines.append(json.dumps(row))
        if len(self._lines) >= self._batch:
            self.flush()

    def flush(self) -> None:
        self._file.write("".join(f"{line}\n" for line in self._lines))
        self._file.flush()
        self._lines.clear()

    def close(self) -> None:
        if not self._file.closed:
            self.flush()
            self._file.close()


def loopback_hosts(count: int, first: int = 0) -> list[str]:
    """127.0.0.2, 127.0.0.3 …: Linux answers on all of 127.0.0.0/8 without set-up."""
    if first + count > _HOSTS_PER_BLOCK * _LARGEST_BLOCK:
        raise ValueError(f"at most {_HOSTS_PER_BLOCK * _LARGEST_BLOCK} loopback hosts")
    numbers = range(first, first + count)
    return [f"127.0.{n // _HOSTS_PER_BLOCK}.{2 + n % _HOSTS_PER_BLOCK}" for n in numbers]


def bind_hosts(hosts: Sequence[str], port: int = 0) -> list[socket.socket]:
    """The same port on every host; port 0 finds one that is free on all of them."""
    for _ in range(1 if port else _PORT_TRIES):
        sockets: list[socket.socket] = []
        chosen = port
        try:
            for host in hosts:
                sockets.append(_listening(host, chosen))
                chosen = sockets[0].getsockname()[1]
        except OSError:
            _close_all(sockets)
            if port:
                raise
        else:
            return sockets
    raise OSError(f"no port is free on all of {len(hosts)} hosts")


def bind_ports(count: int, host: str = LOOPBACK) -> list[socket.socket]:
    """So many free ports on one host."""
    return [_listening(host, 0) for _ in range(count)]


def free_port(host: str = LOOPBACK) -> int:
    """A port that was free a moment ago, for programs that need a fixed one."""
    with _bound(host, 0) as probe:
        return int(probe.getsockname()[1])


def _listening(host: str, port: int) -> socket.socket:
    one = _bound(host, port)
    try:
        # Only a port that is listened on is taken: until then another process may bind it, too.
        one.listen(_BACKLOG)
    except OSError:
        one.close()
        raise
    return one


def _bound(host: str, port: int) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        one.bind((host, port))
    except OSError:
        one.close()
        raise
    one.setblocking(False)
    return one


def _close_all(sockets: Iterable[socket.socket]) -> None:
    for one in sockets:
        one.close()
