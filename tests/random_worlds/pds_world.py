"""PDSes in virtual time, to which things happen: what they hold, how they answer, who asked when.

The truth is kept here, and so is the log of every request; nothing of either is the crawler's.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

import orjson
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from tests.random_worlds.stated import PLAIN, Stated
from tests.support.pds.sim_answers import answer_pds
from tests.support.pds.sim_model import PdsLie, SimPds, SimRepo, about_eprint, did_of, eprint
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.lane import lane_of
from trawlnet.net.rate_limit import wait_from
from trawlnet.net.trouble import Trouble
from trawlnet.tables.relational.database import (
    NO_VALUES,
    Dialect,
    Relational,
    Statement,
    Transaction,
    Values,
)

EPRINT, COMMENT = "pub.chive.eprint.submission", "pub.chive.review.comment"
TAG, LIKE = "pub.chive.eprint.userTag", "app.bsky.feed.like"
# Near those that globs name, and not among them.
NEAR, NEARER = "pub.chives.eprint.submission", "pub-chive.review.comment"
COLLECTIONS = (EPRINT, COMMENT, TAG, LIKE, NEAR, NEARER)
PLC = "https://plc.directory"
LATENCY = 0.05  # Seconds.


@dataclass(frozen=True)
class Asked:
    at: float
    host: str
    user: int
    wait: float = 0.0  # Seconds that it was asked to stay away.
    was_frozen: bool = False  # Its process stood still between the gate and the socket.


@dataclass
class Ill:
    """How a PDS answers for a while."""

    kind: str
    until: float
    said: Stated = PLAIN  # Of one that wants to be left alone.


@dataclass
class _Watch:
    left: int
    host: str = ""
    user: int = -1
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, host: str, user: int) -> None:
        if host == self.host or user == self.user:
            self.left -= 1
        if self.left <= 0:
            self.reached.set()


@dataclass
class World:
    pdses: list[SimPds]
    homes: dict[str, SimPds] = field(default_factory=dict)
    log: list[Asked] = field(default_factory=list)
    ills: dict[str, list[Ill]] = field(default_factory=dict)  # By host.
    away: dict[str, tuple[SimPds, SimRepo]] = field(default_factory=dict)  # Accounts that left.
    bans: list[list[Any]] = field(default_factory=list)  # Host, from when, until when.
    kills: list[tuple[float, int]] = field(default_factory=list)  # When, and of whom.
    stops: list[tuple[float, int]] = field(default_factory=list)  # The same, of gentler ends.
    liars: set[str] = field(default_factory=set)  # URLs of those who have invented accounts.
    gone: dict[tuple[str, str], float] = field(default_factory=dict)  # URI and PDS: since when.
    reordered: dict[str, float] = field(default_factory=dict)  # PDS: since when.
    writer: str = ""  # Of the transaction under way, if a crawl is at it.
    _there: set[tuple[str, str]] = field(default_factory=set)
    _watches: list[_Watch] = field(default_factory=list)

    def url(self, pds: SimPds) -> str:
        return f"https://{pds.address}"

    def home(self, name: str) -> SimPds | None:
        return self.homes.get(did_of(name))

    def repo(self, name: str) -> SimRepo | None:
        home = self.home(name)
        return home.repos.get(did_of(name)) if home else None

    def settle(self, name: str, pds: SimPds) -> None:
        self.homes[pds.repo(name).did] = pds

    def truth(self, wants: Callable[[str], bool]) -> dict[str, str]:
        """URIs that are there to be found, and where."""
        return {
            f"at://{did}/{collection}/{rkey}": self.url(pds)
            for did, pds in self.homes.items()
            if (repo := pds.repos.get(did)) is not None and not repo.status
            if not self.is_banned(pds.address)
            for collection, records in repo.records.items()
            if wants(collection)
            for rkey in records
        }

    def is_banned(self, host: str) -> bool:
        return any(name == host and until == math.inf for name, _, until in self.bans)

    def look(self) -> None:
        """Something has happened: note what is no longer where it was."""
        there = set(self.truth(lambda collection: True).items())
        now = asyncio.get_event_loop().time() if self._there else 0.0
        for pair in self._there - there:
            self.gone.setdefault(pair, now)
        self._there = there

    def reorder(self, pds: SimPds) -> None:
        """Cursors of its listing are places: who is behind one that leaves may be passed over."""
        self.reordered.setdefault(self.url(pds), asyncio.get_running_loop().time())

    async def asked_by(self, user: int, requests: int, moment: float) -> None:
        await self._asked(_Watch(requests, user=user), moment)

    async def asked_of(self, host: str, requests: int, moment: float) -> None:
        await self._asked(_Watch(requests, host=host), moment)

    async def _asked(self, watch: _Watch, moment: float) -> None:
        self._watches.append(watch)
        await watch.reached.wait()
        await asyncio.sleep(moment)

    async def answer(
        self, url: str, user: int, now: float, was_frozen: bool = False
    ) -> tuple[int, Mapping[str, str], bytes]:
        parts = urlsplit(url)
        host = parts.netloc
        if url.startswith(PLC):
            return self._document(parts.path.removeprefix("/"))
        pds = next(one for one in self.pdses if one.address == host)
        ill = self._ill(host, now)
        wait = ill.said.wait if ill.kind == "busy" else 0.0
        self.log.append(Asked(now, host, user, wait, was_frozen))
        for watch in self._watches:
            watch.see(host, user)
        if ill.kind == "shrunk":
            self.reorder(pds)
        if ill.kind == "invents":
            self.liars.add(self.url(pds))
        await asyncio.sleep(LATENCY / 2)
        answer = await self._given(pds, parts, ill, now)
        # What it says may be over by the time that it is heard.
        await asyncio.sleep(LATENCY / 2)
        return answer

    async def _given(
        self, pds: SimPds, parts: SplitResult, ill: Ill, now: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        match ill.kind:
            case "busy":
                return ill.said.status, ill.said.headers(now), b"{}"
            case "503":
                return 503, {}, b"down"
            case "dropped":
                raise ConnectionResetError
            case "hangs":
                await asyncio.sleep(3600.0)
            case "garbage":
                return 200, {}, b'{"repos": 7, "records": {}, "collections": "x"'
        return await _said(pds, parts.path, dict(parse_qsl(parts.query)), ill.kind)

    def _ill(self, host: str, now: float) -> Ill:
        return next((one for one in self.ills.get(host, ()) if now < one.until), Ill("", 0.0))

    def _document(self, did: str) -> tuple[int, Mapping[str, str], bytes]:
        home = self.homes.get(did)
        if home is None:
            return 404, {}, b'{"message": "DID not registered"}'
        service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
        service["serviceEndpoint"] = self.url(home)
        return 200, {}, orjson.dumps({"id": did, "service": [service]})


_LIES = {
    "repeats": PdsLie.ENDLESS_REPOS,
    "invents": PdsLie.INVENTED_REPOS,
    "undescribed": PdsLie.NO_DESCRIPTIONS,
}


async def _said(
    pds: SimPds, path: str, query: dict[str, str], ill: str
) -> tuple[int, Mapping[str, str], bytes]:
    request = cast(web.BaseRequest, SimpleNamespace(path=path, query=query))
    hidden: dict[str, SimRepo] = {}
    half = dict(list(pds.repos.items())[::2])
    # Pages of odd sizes are recognised once there are two of them.
    is_clear = pds.largest_page >= 10 or len(half) > pds.largest_page
    if ill == "shrunk" and is_clear and path.endswith(("listRepos", "listReposByCollection")):
        hidden, pds.repos = pds.repos, half
    if ill == "spoilt":
        for repo in pds.repos.values():
            repo.spoilt = {rkey for records in repo.records.values() for rkey in list(records)[::3]}
    pds.lie = _LIES.get(ill, PdsLie.NONE)
    try:
        response = await answer_pds(pds, request)
    finally:
        pds.lie = PdsLie.NONE
        pds.repos = hidden or pds.repos
        for repo in pds.repos.values():
            repo.spoilt = set()
    return response.status, dict(response.headers), cast(bytes, response.body)


@dataclass
class Life:
    """Of one process that crawls."""

    name: str
    is_dead: bool = False
    is_frozen: bool = False  # It neither asks nor writes; time goes on meanwhile.
    _thawed: asyncio.Event = field(default_factory=asyncio.Event)

    def thaw(self) -> None:
        self.is_frozen = False
        self._thawed.set()

    async def awake(self) -> None:
        if self.is_frozen:
            await self._thawed.wait()


@dataclass(frozen=True)
class SimHttp:
    """The crawler's way out: a turn of its own gate, and then the world instead of a socket."""

    world: World
    gate: Gate
    user: int
    life: Life

    async def get(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] | None = None,
        limits: RequestLimits | None = None,
    ) -> Response | Trouble:
        limits, loop = limits or RequestLimits(), asyncio.get_running_loop()
        async with self.gate.turn(lane or lane_of(url)) as turn:
            await turn.leave()
            was_frozen = self.life.is_frozen
            await self.life.awake()
            try:
                async with asyncio.timeout(limits.total):
                    answer = await self.world.answer(url, self.user, loop.time(), was_frozen)
            except TimeoutError:
                return Trouble(Reason.TIMEOUT, "no answer")
            except ConnectionResetError:
                return Trouble(Reason.CONNECTION_ERROR, "reset")
        status, sent, body = answer
        told = CIMultiDictProxy(CIMultiDict(sent))
        wait = wait_from(told, loop.time(), limits.longest_wait, status=status)
        wait = wait if status >= 400 else None
        return Response(status, told, body, url, (), LATENCY, len(body), wait)

    def stream(self, url: str, **more: Any) -> Any:
        raise NotImplementedError("scans do not stream")


@dataclass
class MortalDb:
    """The database as one process has it: a dead one reads and writes nothing more, and what it
    was just writing is taken back."""

    db: Relational
    world: World
    life: Life

    @property
    def dialect(self) -> Dialect:
        return self.db.dialect

    async def rows(self, statement: Statement, values: Values = NO_VALUES) -> list[tuple[Any, ...]]:
        async with self.transaction() as transaction:
            return await transaction.rows(statement, values)

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        async with self.transaction() as transaction:
            return await transaction.run(statement, values)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        await self.life.awake()
        self._live()
        async with self.db.transaction() as transaction:
            self.world.writer = self.life.name
            try:
                yield transaction
                self._live()
            finally:
                self.world.writer = ""

    async def close(self) -> None:
        """Others use the database, too: it outlives the process that dies here."""

    def _live(self) -> None:
        if self.life.is_dead:
            raise asyncio.CancelledError


VALUES: dict[str, Callable[[str, int], dict[str, Any]]] = {
    EPRINT: eprint,
    COMMENT: lambda did, n: about_eprint(did, body=[{"type": "text", "content": f"Well. {n}"}]),
    TAG: lambda did, n: about_eprint(did, tag=f"tag{n}"),
    NEAR: eprint,
    NEARER: lambda did, n: about_eprint(did, note=f"{n}"),
    LIKE: lambda did, n: {"subject": {"uri": f"at://{did}"}, "createdAt": "2026-01-02T03:04:05Z"},
}


def gaps(log: list[Asked]) -> Iterator[tuple[Asked, Asked]]:
    """Each request, and the one before it to the same host."""
    last: dict[str, Asked] = {}
    for one in log:
        if one.host in last:
            yield last[one.host], one
        last[one.host] = one
