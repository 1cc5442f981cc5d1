"""How a crawl reaches a world of repositories in virtual time: requests, and a mirror."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from multidict import CIMultiDict

from tests.random_worlds.repos_world import EPOCH, PLC, Answer, Host, Row, World, WorldClock, answer
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.lane import lane_of
from trawlnet.net.rate_limit import wait_from
from trawlnet.net.trouble import Trouble, reason_for_answer


class WorldHttp:
    """Takes turns like the real one, and asks the world instead of the network."""

    def __init__(self, world: World, turns: Any, clock: WorldClock, limits: RequestLimits) -> None:
        self._world = world
        self._turns = turns
        self._clock = clock
        self._limits = limits

    async def __aenter__(self) -> WorldHttp:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] | None = None,
        limits: RequestLimits | None = None,
        on_end: Callable[[Any], None] = lambda answer: None,
    ) -> AsyncIterator[WorldStream | Trouble]:
        async with self._turns.turn(lane or lane_of(url)) as turn:
            await turn.leave()
            found = await self._ask(url, limits or self._limits)
            try:
                yield found
            finally:
                on_end(found)

    async def _ask(self, url: str, limits: RequestLimits) -> WorldStream | Trouble:
        world, start = self._world, self._clock.now()
        name = urlsplit(url).netloc
        number, host = world.asked[name], _host_of(world, name)
        world.asked[name] += 1
        world.requests += 1
        world.at_request(world.requests)
        run = world.run
        first, count = host.fails
        fails = host.dead or first <= number < first + count
        hangs = fails and host.failure == "hang"
        await self._clock.sleep(limits.total if hangs else host.latency / 2)
        throttled = not fails and host.throttles and number % host.throttles == host.throttles - 1
        if hangs or (fails and host.failure == "reset"):
            self._note(Row(name, url, start, self._clock.now(), 0, 0.0, run))
            reason = Reason.TIMEOUT if hangs else Reason.CONNECTION_ERROR
            return Trouble(reason, "drawn", url=url)
        if fails:
            given = Answer(503, b"no")
        elif throttled:
            given = Answer(host.stated.status, b"", host.stated.headers(start - EPOCH))
        else:
            given = answer(world, url, self._clock.now())
        # What it says may be over by the time that it is heard.
        await self._clock.sleep(host.latency / 2)
        wait = host.stated.wait if throttled else 0.0
        self._note(Row(name, url, start, self._clock.now(), given.status, wait, run))
        return WorldStream(given, url, self._clock.now(), limits.wire)

    def _note(self, row: Row) -> None:
        if row.run == self._world.run:  # What a killed process still waits for nobody sees.
            self._world.log.append(row)


def _host_of(world: World, name: str) -> Host:
    if name.startswith("pds"):
        return world.spec.hosts[int(name.partition(".")[0].removeprefix("pds"))]
    return world.spec.directory if name == urlsplit(PLC).netloc else Host(0, 0)


_MUCH = 1 << 30  # Bytes.
_PIECE = 128 << 10


class WorldStream:
    hops = ()
    elapsed = 0.1
    announced = None

    def __init__(self, given: Answer, url: str, now: float, most: int = _MUCH) -> None:
        self._given = given
        self._most = most
        self._pieces = self._read()
        self.status = given.status
        self.url = url
        self.headers = CIMultiDict(given.headers)
        self.wait = wait_from(self.headers, now, 3600.0, status=self.status)
        if self.status < 400:
            self.wait = None
        self.wire_bytes = self.inflated_bytes = len(given.body)

    @property
    def reason(self) -> Reason:
        return reason_for_answer(self.status, self.wait)

    def __aiter__(self) -> AsyncIterator[bytes | Trouble]:
        return self._pieces  # Whoever stops and begins anew goes on from there.

    async def _read(self) -> AsyncIterator[bytes | Trouble]:
        body = self._given.body
        if self._given.cut:
            yield body[: len(body) // 2]
            yield Trouble(Reason.TRUNCATED, "drawn", url=self.url)
            return
        for at in range(0, min(len(body), self._most), _PIECE):
            yield body[at : at + _PIECE]
        if len(body) > self._most:
            yield Trouble(Reason.TOO_LARGE, "drawn", url=self.url)

    async def whole(self) -> Response:
        size, body = len(self._given.body), self._given.body
        return Response(self.status, self.headers, body, self.url, (), 0.1, size, self.wait)  # type: ignore[arg-type]


class WorldMirror:
    """The directory as it was mirrored before a crawl."""

    def __init__(self, world: World, now: float) -> None:
        self._rows = {
            did: RepoIdentity(did, world.url(world.home_of(one, now)), one.key.did_key)
            for did, one in sorted(world.accounts.items())
            if not one.tombstoned
        }
        self._gone = sorted(did for did, one in world.accounts.items() if one.tombstoned)

    async def unhoused(self, after: str, last: str, most: int) -> Sequence[tuple[str, str]]:
        return [(did, "tombstoned") for did in self._gone if after < did <= last][:most]

    async def pages(self, after: str) -> AsyncIterator[Sequence[RepoIdentity]]:
        rows = [row for did, row in self._rows.items() if did > after]
        for start in range(0, len(rows), 70):
            yield rows[start : start + 70]

    async def states(self, dids: Sequence[str]) -> Mapping[str, RepoIdentity]:
        return {did: self._rows[did] for did in dids if did in self._rows}
