"""A network of PDSes drawn at random, asked in virtual time: what it is, and what it answers.

Nothing here is taken from the simulated network of the product: the world is a table of accounts
and a few rules, and the server keeps its own log of what it was asked and when.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from multidict import CIMultiDict

from tests.random_worlds.stated import PLAIN, Stated
from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.lane import lane_of
from trawlnet.net.rate_limit import wait_from
from trawlnet.net.trouble import Trouble, reason_for_answer
from trawlnet.sim.atproto.keyring import make_keyring
from trawlnet.sim.repository.car import write_car
from trawlnet.sim.repository.repo import Repo, build_repo

PLC = "https://plc.directory"
RELAY = "https://relay.world.org"
EPOCH = 1_700_000_000.0  # Virtual time begins here.
REV = "3lscuqc52or2x"
KEYS = make_keyring(14)
LETTERS = "234567abcdefghijklmnopqrstuvwxyz"
# How a repository can be wrong so that no way of verifying believes it, and the words for that.
MALFORMED = {
    "garbage": {"parse_error"},
    "another's": {"parse_error"},
    "missing block": {"parse_error", "truncated"},
    # Tried again and again: the last try may have met other trouble of its host.
    "cut": {"truncated", "connection_error", "unavailable", "timeout"},
}
ERRORS = {
    "deactivated": "RepoDeactivated",
    "takendown": "RepoTakendown",
    "suspended": "RepoSuspended",
    "deleted": "RepoNotFound",
}


class WorldClock:
    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Host:
    """One server, as drawn."""

    size: int  # Accounts that live there.
    active: int  # Of these, repositories that can be had.
    listed_at_once: int = 1000
    repeats: int = 0  # Accounts of a page that the next one names again.
    shrinks: bool = False  # An inactive account is no longer listed when the second page is.
    trailing_page: bool = True  # An empty last page, as the reference sends it.
    latency: float = 0.05
    fails: tuple[int, int] = (0, 0)  # From which request on, and how many in a row.
    failure: str = "500"  # Or "reset", or "hang".
    throttles: int = 0  # Each so-manyth request is refused; 0: none.
    stated: Stated = PLAIN  # What it says then.
    dead: bool = False
    on_relay: bool = True


@dataclass(frozen=True, slots=True)
class Spec:
    seed: int
    hosts: Sequence[Host]
    directory: Host  # Its sizes mean nothing.
    moved: int  # Accounts that have moved to the next host before the crawl,
    moving: int  # and while it goes on,
    moving_at: float  # so many seconds after its beginning.
    malformed: Sequence[str]  # Kinds, one for each of some active accounts.
    tombstoned: int  # Of the deleted ones: the directory says so, too.


@dataclass(slots=True)
class Account:
    did: str
    home: int  # Host.
    status: str
    key: Any
    malformed: str = ""
    former: int | None = None  # Host that it left; it is switched off there.
    moves_to: int | None = None  # While the crawl goes on.
    tombstoned: bool = False

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        count = 1 + int(self.did[-1], 36) % 3
        return {
            f"app.bsky.feed.post/3k{n}": {"text": f"{n} of {self.did}", "n": n}
            for n in range(count)
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One request in the log of its server."""

    host: str
    path: str
    start: float
    end: float
    status: int  # 0: no answer.
    wait: float  # That the server asked for.
    run: int


@dataclass(slots=True)
class World:
    spec: Spec
    accounts: dict[str, Account] = field(default_factory=dict)
    log: list[Row] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    told: set[str] = field(default_factory=set)  # DIDs that a server has listed,
    told_whole: set[int] = field(default_factory=set)  # and servers whose last page was read.
    run: int = 1
    requests: int = 0
    at_request: Callable[[int], None] = lambda number: None
    _listed: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        rng = random.Random(self.spec.seed)
        for number, host in enumerate(self.spec.hosts):
            statuses = ["active"] * min(host.active, host.size)
            statuses += rng.choices(list(ERRORS), k=host.size - len(statuses))
            for status in statuses:
                self._settle(number, status, rng)
        active = [one for one in self.accounts.values() if one.status == "active"]
        rng.shuffle(active)
        for kind in self.spec.malformed:
            if active:
                active.pop().malformed = kind
        self._send_away(active)
        gone = [one for one in self.accounts.values() if one.status == "deleted"]
        for one in gone[: self.spec.tombstoned]:
            one.tombstoned = True
        for one in self.accounts.values():
            for place in (one.home, one.former):
                if place is not None and one.status != "deleted":
                    self._listed[place].append(one.did)

    def _settle(self, host: int, status: str, rng: random.Random) -> None:
        did = "did:plc:" + "".join(rng.choices(LETTERS, k=24))
        self.accounts[did] = Account(did, host, status, rng.choice(KEYS))

    def _send_away(self, active: list[Account]) -> None:
        hosts = len(self.spec.hosts)
        if hosts < 2:
            return
        for one in active[: self.spec.moved]:
            one.former, one.home = one.home, (one.home + 1) % hosts
        for one in active[self.spec.moved :][: self.spec.moving]:
            one.moves_to = (one.home + 1) % hosts

    def url(self, host: int) -> str:
        return f"https://pds{host}.world.org"

    def home_of(self, one: Account, now: float) -> int:
        moved = one.moves_to is not None and now >= EPOCH + self.spec.moving_at
        return one.moves_to if moved and one.moves_to is not None else one.home

    def size_of(self, host: int) -> int:
        """Every account that the server lists, or that the directory ever says is there."""
        return sum(host in (one.home, one.former, one.moves_to) for one in self.accounts.values())

    def state_on(self, one: Account, host: int, now: float) -> str:
        home = self.home_of(one, now)
        if host == home:
            return one.status
        return "deactivated" if host in (one.home, one.former) else "deleted"

    def repo(self, one: Account) -> Repo:
        return build_repo(one.did, one.records, one.key, REV)

    def listed_on(self, host: int) -> list[str]:
        return self._listed[host]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


def answer(world: World, url: str, now: float) -> Answer:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    origin, method = f"https://{parts.netloc}", parts.path.rpartition(".")[2]
    if origin == PLC:
        return _document(world, parts.path.strip("/"), now)
    if origin == RELAY:
        hosts = [
            {"hostname": urlsplit(world.url(n)).netloc, "status": "active"}
            for n, host in enumerate(world.spec.hosts)
            if host.on_relay
        ]
        return _json({"hosts": hosts})
    host = int(parts.netloc.partition(".")[0].removeprefix("pds"))
    if method == "listRepos":
        return _listing(world, host, query)
    one = world.accounts.get(query.get("did", ""))
    state = "deleted" if one is None else world.state_on(one, host, now)
    if one is None or state != "active":
        return _json({"error": ERRORS[state], "message": "no"}, 400)
    if method == "getLatestCommit":
        return _json({"cid": str(world.repo(one).head), "rev": REV})
    return _car(world, one)


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _document(world: World, did: str, now: float) -> Answer:
    one = world.accounts.get(did)
    if one is None or one.tombstoned:
        return _json({"message": "DID not available"}, 404)
    key = parse_did_key(one.key.did_key).multibase
    service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
    method = {"id": f"{did}#atproto", "type": "Multikey", "controller": did}
    return _json(
        {
            "id": did,
            "verificationMethod": [method | {"publicKeyMultibase": key}],
            "service": [service | {"serviceEndpoint": world.url(world.home_of(one, now))}],
        }
    )


def _listing(world: World, number: int, query: Mapping[str, str]) -> Answer:
    host, everyone = world.spec.hosts[number], world.listed_on(number)
    start = int(query.get("cursor", "0"))
    if start and host.shrinks:
        everyone = [did for did in everyone if world.accounts[did].status != "takendown"]
    end = start + min(host.listed_at_once, int(query["limit"]))
    rows = [
        {"did": did, "head": "", "rev": REV, "active": world.accounts[did].status == "active"}
        for did in everyone[max(0, start - host.repeats) : end]
    ]
    more = end < len(everyone) or (host.trailing_page and start < len(everyone))
    world.told.update(row["did"] for row in rows)
    if not more:
        world.told_whole.add(number)
    return _json({"repos": rows} | ({"cursor": str(end)} if more else {}))


def _car(world: World, one: Account) -> Answer:
    repo = world.repo(one)
    car = repo.car(random.Random(one.did))
    match one.malformed:
        case "garbage":
            car = b"\x3a\xa2eroots" + car[20:]
        case "another's":
            other = Account("did:plc:" + "a" * 24, one.home, "active", one.key)
            car = world.repo(other).car()
        case "missing block":
            car = write_car(
                [repo.head], [block for block in repo.blocks if block.cid != repo.commit.data]
            )
    return Answer(200, car, cut=one.malformed == "cut")


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
        told: Callable[[Any], None] = lambda answer: None,
    ) -> AsyncIterator[WorldStream | Trouble]:
        async with self._turns.turn(lane or lane_of(url)) as turn:
            await turn.leave()
            found = await self._ask(url, limits or self._limits)
            try:
                yield found
            finally:
                told(found)

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
        await self._clock.sleep(limits.total if hangs else host.latency)
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
        wait = host.stated.wait if throttled else 0.0
        self._note(Row(name, url, start, self._clock.now(), given.status, wait, run))
        return WorldStream(given, url, self._clock.now())

    def _note(self, row: Row) -> None:
        if row.run == self._world.run:  # What a killed process still waits for nobody sees.
            self._world.log.append(row)


def _host_of(world: World, name: str) -> Host:
    if name.startswith("pds"):
        return world.spec.hosts[int(name.partition(".")[0].removeprefix("pds"))]
    return world.spec.directory if name == urlsplit(PLC).netloc else Host(0, 0)


class WorldStream:
    hops = ()
    elapsed = 0.1
    announced = None

    def __init__(self, given: Answer, url: str, now: float) -> None:
        self._given = given
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

    async def __aiter__(self) -> AsyncIterator[bytes | Trouble]:
        body = self._given.body
        if self._given.cut:
            yield body[: len(body) // 2]
            yield Trouble(Reason.TRUNCATED, "drawn", url=self.url)
        else:
            yield body

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
