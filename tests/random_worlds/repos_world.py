"""A network of PDSes drawn at random, asked in virtual time: what it is, and what it answers.

Nothing here is taken from the simulated network of the product: the world is a table of accounts
and a few rules, and the server keeps its own log of what it was asked and when.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.random_worlds.stated import PLAIN, Stated
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.atproto.tid import tid
from trawlnet.sim.atproto.keyring import make_keyring
from trawlnet.sim.repository.car import CarBlock, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.repo import Repo, build_repo

PLC = "https://plc.directory"
RELAY = "https://relay.world.org"
EPOCH = 1_700_000_000.0  # Virtual time begins here.
FIRST_REV = 1_690_000_000_000_000  # Microseconds.
KEYS = make_keyring(14)
LETTERS = "234567abcdefghijklmnopqrstuvwxyz"
# How a repository can be wrong so that no way of verifying believes it, and the words for that.
MALFORMED = {
    "no tree": {"parse_error"},
    "garbage": {"parse_error"},
    "another's": {"parse_error"},
    "missing block": {"parse_error", "truncated"},
    # Tried again and again: the last try may have met other trouble of its host.
    "cut": {"truncated", "connection_error", "unavailable", "timeout"},
}
# And so that only some do: one that wrote something else under the same hash, and one that signed
# with another key.
TAMPERED, MISSIGNED = "tampered", "missigned"
# How the document of an account can be wrong.
BAD_DOCUMENTS = ("no json", "another's", "a list", "no service", "no key")
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
    garbled: int | None = None  # The page of its listing that is none, the first time.
    odd_rows: bool = False  # Its listing has rows that name nothing.


@dataclass(frozen=True, slots=True)
class Change:
    """Of an account that stays where it is."""

    at: float  # Seconds since the beginning; infinity: between two sweeps.
    kind: str  # edit, on, or the state that it is in from then on.
    which: int


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
    changes: Sequence[Change] = ()
    documents: Sequence[str] = ()  # Kinds of bad ones, of as many accounts.
    large: int = 0  # Accounts with a lot to say.


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
    document: str = ""  # How it is wrong.
    is_large: bool = False
    version: int = 0
    is_changed: bool = False
    served: set[int] = field(default_factory=set)  # Versions.

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        return self.records_of(self.version)

    def records_of(self, version: int) -> dict[str, dict[str, Any]]:
        count = 1 + int(self.did[-1], 36) % 3
        told = {"text": f"{version} of {self.did}"}
        told |= {"much": "m" * 300_000} if self.is_large else {}
        posts = {f"app.bsky.feed.post/3k{n}": told | {"n": n} for n in range(count)}
        return posts | {"app.bsky.graph.follow/3kf": told}

    @property
    def rev(self) -> str:
        return tid(FIRST_REV + self.version)


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
    garbled: set[int] = field(default_factory=set)  # Hosts that have sent a page that is none.
    told: set[str] = field(default_factory=set)  # DIDs that a server has listed,
    told_whole: set[int] = field(default_factory=set)  # and servers whose last page was read.
    run: int = 1
    requests: int = 0
    at_request: Callable[[int], None] = lambda number: None
    _settled: list[Account] = field(default_factory=list)  # They stay where they are.
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
        self._settled = [
            one
            for one in active[self.spec.moved + self.spec.moving :]
            if not self.spec.hosts[one.home].dead
        ]
        for kind, one in zip(self.spec.documents, self._settled, strict=False):
            one.document = kind
        self._settled = self._settled[len(self.spec.documents) :]
        for one in self._settled[: self.spec.large]:
            one.is_large = True
        self._settled = self._settled[self.spec.large :]
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

    async def change(self) -> None:
        """What happens while a crawl goes on."""
        for change in sorted(self.spec.changes, key=lambda change: change.at):
            if change.at < math.inf:
                await asyncio.sleep(EPOCH + change.at - WorldClock().now())
                self._apply(change)

    def change_between(self) -> None:
        for change in self.spec.changes:
            if change.at == math.inf:
                self._apply(change)

    def _apply(self, change: Change) -> None:
        if not self._settled:
            return
        one = self._settled[change.which % len(self._settled)]
        one.is_changed = True
        if change.kind == "edit":
            one.version += 1
        else:
            one.status = "active" if change.kind == "on" else change.kind

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
        key = KEYS[KEYS.index(one.key) - 1] if one.malformed == MISSIGNED else one.key
        return build_repo(one.did, one.records, key, one.rev)

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
        return _json({"cid": str(world.repo(one).head), "rev": one.rev})
    return _car(world, one)


def tampered(data: bytes) -> bytes:
    return data.replace(b" of did:", b" by did:")


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _document(world: World, did: str, now: float) -> Answer:
    one = world.accounts.get(did)
    if one is None or one.tombstoned:
        return _json({"message": "DID not available"}, 404)
    key = parse_did_key(one.key.did_key).multibase
    service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
    method = {"id": f"{did}#atproto", "type": "Multikey", "controller": did}
    document = {
        "id": did,
        "verificationMethod": [method | {"publicKeyMultibase": key}],
        "service": [service | {"serviceEndpoint": world.url(world.home_of(one, now))}],
    }
    match one.document:
        case "no json":
            return Answer(200, b"<html>")
        case "another's":
            return _json(document | {"id": "did:plc:" + "a" * 24})
        case "a list":
            return _json([document])
        case "no service":
            return _json(document | {"service": [7, None, {"id": 7}]})
        case "no key":
            return _json(document | {"verificationMethod": {"publicKeyMultibase": [key]}})
    return _json(document)


def _listing(world: World, number: int, query: Mapping[str, str]) -> Answer:
    host, everyone = world.spec.hosts[number], world.listed_on(number)
    start = int(query.get("cursor", "0"))
    if start and host.shrinks:
        everyone = [did for did in everyone if world.accounts[did].status != "takendown"]
    end = start + min(host.listed_at_once, int(query["limit"]))
    page = start // min(host.listed_at_once, int(query["limit"]))
    if page == host.garbled and number not in world.garbled:
        world.garbled.add(number)
        return Answer(200, b"<html>Back soon</html>")
    named = [world.accounts[did] for did in everyone[max(0, start - host.repeats) : end]]
    rows: list[Any] = [
        {"did": one.did, "head": "", "rev": one.rev, "active": one.status == "active"}
        for one in named
    ]
    more = end < len(everyone) or (host.trailing_page and start < len(everyone))
    world.told.update(one.did for one in named)
    rows += _ODD_ROWS * host.odd_rows
    if not more:
        world.told_whole.add(number)
    return _json({"repos": rows} | ({"cursor": str(end)} if more else {}))


_ODD_ROWS = [None, 7, {}, {"did": None}, {"did": "did:"}, {"did": "did:plc:" + "a" * 5000}]


def _car(world: World, one: Account) -> Answer:
    repo = world.repo(one)
    one.served.add(one.version)
    car = repo.car(random.Random(one.did))
    match one.malformed:
        case "garbage":
            car = b"\x3a\xa2eroots" + car[20:]
        case "another's":
            other = Account("did:plc:" + "a" * 24, one.home, "active", one.key)
            car = world.repo(other).car()
        case "no tree":
            record = repo.blocks[0]
            commit = Commit(one.did, record.cid, one.rev).signed(one.key).encode()
            car = write_car([cid_of(commit)], [CarBlock(cid_of(commit), commit), *repo.blocks])
        case "tampered":
            blocks = [block._replace(data=tampered(block.data)) for block in repo.blocks]
            car = write_car([repo.head], blocks)
        case "missing block":
            car = write_car(
                [repo.head], [block for block in repo.blocks if block.cid != repo.commit.data]
            )
    return Answer(200, car, cut=one.malformed == "cut")
