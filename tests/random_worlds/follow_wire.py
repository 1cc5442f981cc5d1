"""How a follower reaches a world in virtual time: requests, and WebSockets that break."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.random_worlds.follow_world import LivingWorld, answer
from tests.random_worlds.repos_wire import WorldHttp, WorldStream
from tests.random_worlds.repos_world import Answer, Row
from trawlnet.atproto.cid import Cid
from trawlnet.atproto.dagcbor import encode
from trawlnet.net.client.answer import RequestLimits
from trawlnet.net.trouble import ConnectionDropped, TooLarge, Trouble
from trawlnet.sim.atproto.live.event_log import FirehoseLog, LoggedEvent, error_frame, info_frame

LONGEST_FAILURE = 12 * 3600.0  # Seconds.
_NSID = "com.atproto.sync.subscribeRepos"
_FIRST = 1000  # Logs begin at multiples of it, or one behind.
_GARBAGE = b"\xff\x00 no frame at all"


class LivingHttp(WorldHttp):
    """Takes turns like the real one, and asks the world instead of the network."""

    async def _ask(self, url: str, limits: RequestLimits) -> WorldStream | Trouble:
        world: Any = self._world
        name, start, run = urlsplit(url).netloc, self._clock.now(), world.run
        world.moment("request")
        number = sum(row.host == name for row in world.log)
        await self._clock.sleep(world.spec.latency)
        if name.startswith("pds") and self._is_failing(name, number):
            given = Answer(503, b"no")
        else:
            given = answer(world, url)
        # What it says may be over by the time that it is heard.
        await self._clock.sleep(world.spec.way_back)
        if run == world.run:
            world.log.append(Row(name, url, start, self._clock.now(), given.status, 0.0, run))
        return WorldStream(given, url, self._clock.now())

    def _is_failing(self, name: str, number: int) -> bool:
        world: Any = self._world
        first, count = world.spec.fails
        if not first <= number < first + count:
            return False
        # Whoever waits six hours between two visits would meet thirty failures for a week.
        since = world.failing_since.setdefault(name, self._clock.now())
        return bool(self._clock.now() < since + LONGEST_FAILURE)


class Sockets:
    """WebSockets of one world; a break that was drawn happens once."""

    def __init__(self, world: LivingWorld) -> None:
        self.world = world
        self.joined: dict[str, float] = {}  # When the first one to a host was opened.
        self.sent: Counter[str] = Counter()
        self.broken: set[tuple[str, int]] = set()

    def forget_but(self, hosts: Collection[str]) -> None:
        """Who was killed before it had saved anything of a host has never joined it."""
        self.joined = {host: at for host, at in self.joined.items() if host in hosts}

    @asynccontextmanager
    async def open(self, url: str, **_: Any) -> AsyncIterator[WorldSocket]:
        world, parts = self.world, urlsplit(url)
        start = world.now()
        await asyncio.sleep(world.spec.latency)
        world.moment("dial")
        world.log.append(Row(parts.netloc, url, start, world.now(), 101, 0.0, world.run))
        origin = f"https://{parts.netloc}"
        log = world.log_of(origin)
        cursor = parse_qs(parts.query).get("cursor", [None])[0]
        self.joined.setdefault(parts.netloc, world.now())
        socket = WorldSocket(self, parts.netloc, log, cursor)
        world.behind[parts.netloc] = lambda: socket.has_more
        try:
            yield socket
        finally:
            world.behind[parts.netloc] = lambda: True


class WorldSocket:
    def __init__(self, sockets: Sockets, host: str, log: FirehoseLog, cursor: str | None) -> None:
        self._sockets = sockets
        self._host = host
        self._log = log
        self._first: deque[bytes] = deque()
        self._is_over = False
        firehose = sockets.world.spec.firehose
        self._seq = log.last if cursor is None else int(cursor) - firehose.is_inclusive
        if self._seq > log.last:
            self._end(error_frame("FutureCursor", "Cursor in the future."))
        elif 0 < self._seq < log.oldest - 1:
            self._first.append(info_frame("OutdatedCursor"))
            self._seq = log.oldest - 1

    @property
    def has_more(self) -> bool:
        return bool(self._first) or bool(self._log.after(self._seq, 1)) or self._is_over

    async def receive(self) -> bytes | str:
        """A cancelled call has taken nothing."""
        while not self._first and not self._is_over:
            growth = self._log.growth
            if self._log.after(self._seq, 1):
                break
            await growth.wait()
        self._sockets.world.moment("frame")
        if self._first:
            return self._first.popleft()
        if self._is_over:
            raise ConnectionDropped("drawn")
        return self._next()

    def _next(self) -> bytes | str:
        if 0 < self._seq < self._log.oldest - 1:
            self._end(error_frame("ConsumerTooSlow", "drawn"))
            return self._first.popleft()
        if (broken := self._break()) is not None:
            return broken
        event = self._log.after(self._seq, 1)[0]
        if event.seq % _FIRST in self._sockets.world.spec.firehose.poison:
            return _GARBAGE
        self._seq = event.seq
        self._sockets.sent[self._host] += 1
        return json_text(event) if self._sockets.world.spec.firehose.is_json else event.frame()

    def _break(self) -> bytes | None:
        for at, how in self._sockets.world.spec.firehose.breaks:
            if (
                at <= self._sockets.sent[self._host]
                and (self._host, at) not in self._sockets.broken
            ):
                self._sockets.broken.add((self._host, at))
                return self._broken(how)
        return None

    def _broken(self, how: str) -> bytes:
        match how:
            case "odd":  # A bad frame, and nothing else is wrong.
                return encode({"op": 1, "t": "#commit"}) + encode({"seq": "one"})
            case "slow":
                self._end(error_frame("ConsumerTooSlow", "drawn"))
                return self._first.popleft()
            case "garbage":
                return _GARBAGE
            case "huge":
                raise TooLarge("drawn")
            case _:
                self._is_over = True
                raise ConnectionDropped("drawn")

    def _end(self, last: bytes) -> None:
        self._first.append(last)
        self._is_over = True


def json_text(event: LoggedEvent) -> str:
    payload = {"$type": f"{_NSID}{event.kind}", **event.payload, "seq": event.seq}
    return json.dumps({"$type": "message", "payload": _plain(payload)})


def _plain(value: Any) -> Any:
    if isinstance(value, Cid):
        return {"$link": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).rstrip(b"=").decode()}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
