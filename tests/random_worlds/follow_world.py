"""A network that changes while it is followed, in virtual time: accounts and their repositories,
what each server tells on its firehose, and what it answers when it is asked."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.random_worlds.repos_world import EPOCH, ERRORS, KEYS, LETTERS, PLC, RELAY, Answer, Row
from trawlnet.archive.format.record_text import record_text
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.atproto.tid import tid, tid_time_us
from trawlnet.sim.atproto.history import iso_time
from trawlnet.sim.atproto.live.commits import CommitStory, RepoState, commit_of
from trawlnet.sim.atproto.live.event_log import FirehoseLog, LoggedEvent
from trawlnet.sim.atproto.live.relay_stream import Mischief, RelayStream, Spoiler
from trawlnet.sim.repository.car import write_car
from trawlnet.sim.repository.mst import build_tree

COLLECTIONS = ("app.bsky.feed.post", "app.bsky.feed.like", "app.bsky.graph.follow")
PASSING = "app.bsky.feed.post/passing"
RELAYS = (RELAY, "https://other-relay.world.org")
ODD = -(2**63) - 1  # An integer that a record may hold, and that is left out as JSON.
LOSSY = (Mischief.DROP, Mischief.SWAP)  # A message may be missing at the end.
_LONGEST_VISIT = 8.0  # Times what one answer takes.
_HOURS = 3600.0
_EMPTY = build_tree([]).root


@dataclass(frozen=True, slots=True)
class Firehose:
    """How the firehoses of a world behave."""

    is_inclusive: bool = False  # The message at the cursor is told again.
    is_json: bool = False
    window: int = 100_000  # Messages that can still be had.
    # After so many messages of an upstream: "close", "slow", "garbage", "huge" or "odd".
    breaks: tuple[tuple[int, str], ...] = ()
    # Instead of these messages of an upstream, by number, only garbage ever comes.
    poison: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Act:
    what: str  # A method of LivingWorld.
    whom: int
    pause: float  # Seconds before it.
    chance: int


@dataclass(frozen=True, slots=True)
class FollowSpec:
    seed: int
    hosts: int
    accounts: int
    acts: tuple[Act, ...]
    firehose: Firehose = Firehose()
    share: float = 0.0  # Of messages that the relay spoils,
    kinds: tuple[Mischief, ...] = ()  # in these ways.
    page: int = 1000  # Accounts on a page of a listing.
    fails: tuple[int, int] = (0, 0)  # From which request to a PDS on, and how many in a row.
    latency: float = 0.05  # Seconds until a server has a request,
    way_back: float = 0.0  # and from then until its answer is here.
    relays: int = 1  # Each spoils what it tells in its own way.


@dataclass(slots=True)
class Living:
    """One account."""

    did: str
    home: int
    key: Any
    status: str = "active"
    former: set[int] = field(default_factory=set)
    moved_at: float = -math.inf
    state: RepoState = field(init=False)
    story: CommitStory | None = None

    def __post_init__(self) -> None:
        self.state = RepoState(self.did, {}, "", _EMPTY)

    def car(self) -> bytes:
        assert self.story is not None
        records = [(cid_of(data), data) for data in self.state.records.values()]
        blocks = dict([*records, *self.story.nodes, self.story.head])
        return write_car([self.story.head.cid], list(blocks.items()))  # type: ignore[arg-type]


class LivingWorld:
    """Acts change the truth, and servers tell of them."""

    def __init__(self, spec: FollowSpec) -> None:
        self.spec = spec
        self.accounts: dict[str, Living] = {}
        self.history: set[tuple[str, str, str]] = set()  # (DID, path, CID) that ever was.
        self.were_away: set[str] = set()  # DIDs that were ever not served.
        self.identities: set[tuple[str, str]] = set()  # DIDs whose identity changed, and when.
        # When a server last told the truth about a change of an account: by its name and the DID.
        self.named: dict[tuple[str, str], float] = {}
        self._drifted: set[str] = set()  # DIDs that have written nothing since.
        self._true: list[Mapping[str, Any]] = []
        self.log: list[Row] = []
        self.run = 1
        self.failing_since: dict[str, float] = {}  # By host.
        self.behind: dict[str, Callable[[], bool]] = {}  # Whether an upstream has more to tell.
        self.moment: Callable[[str], None] = lambda what: None
        self._random = random.Random(spec.seed)
        window = spec.firehose.window
        self.logs = [FirehoseLog(1 + 1000 * n, window) for n in range(spec.hosts)]
        self.relays = {url: self._relay(number) for number, url in enumerate(RELAYS[: spec.relays])}
        for log, url in zip(self.logs, self.urls, strict=True):
            log.listeners.append(partial(self._note, urlsplit(url).netloc))
            for relay in self.relays.values():
                relay.listen(log)
        for number in range(spec.accounts):
            self.join(number, self._random)

    def _relay(self, number: int) -> RelayStream:
        relay = RelayStream(self.spec.seed + number, Spoiler(self.spec.share, self.spec.kinds))
        relay.log = FirehoseLog(1_000_000 * (1 + number), self.spec.firehose.window)
        relay.log.listeners.append(partial(self._note, urlsplit(RELAYS[number]).netloc))
        return relay

    @property
    def relay(self) -> RelayStream:
        return self.relays[RELAY]

    def log_of(self, origin: str) -> FirehoseLog:
        """The firehose of a server."""
        relay = self.relays.get(origin)
        return relay.log if relay else self.logs[self.urls.index(origin)]

    def url(self, host: int) -> str:
        return f"https://pds{host}.world.org"

    @property
    def urls(self) -> list[str]:
        return [self.url(host) for host in range(self.spec.hosts)]

    def now(self) -> float:
        try:
            return EPOCH + asyncio.get_running_loop().time()
        except RuntimeError:
            return EPOCH - _HOURS

    async def live(self) -> None:
        """Everything that was drawn happens; then what a relay has lost is told again."""
        for act in self.spec.acts:
            await asyncio.sleep(act.pause)
            self.act(act)
        for did in sorted(self._drifted):
            self.write(self.accounts[did], self._random)
        if set(self.spec.kinds) & set(LOSSY) and self.spec.share:
            await asyncio.sleep(1.0)
            self._close()

    def act(self, act: Act) -> None:
        chance = random.Random(f"{self.spec.seed}/{act.chance}")
        if act.what == "join":
            self.join(act.whom, chance)
            return
        everyone = [*self.accounts.values()]
        one = everyone[act.whom % len(everyone)]
        if one.status != "deleted":
            getattr(self, act.what)(one, chance)

    def join(self, whom: int, chance: random.Random) -> None:
        did = "did:plc:" + "".join(chance.choices(LETTERS, k=24))
        one = Living(did, whom % self.spec.hosts, chance.choice(KEYS))
        if did in self.accounts:
            return
        self.accounts[did] = one
        self._tell(one, "#identity", {"handle": "a.b.example"})
        self._tell(one, "#account", {"active": True})
        self.write(one, chance)

    def write(self, one: Living, chance: random.Random) -> None:
        if one.status == "active":
            story = self._commit(one, edited(one.state.records, chance))
            self._tell(one, "#commit", story.payload())

    def post(self, one: Living, chance: random.Random) -> None:
        """A record that is to go again."""
        self._write_passing(one, {PASSING: encode({"text": f"{chance.random()}"})})

    def unpost(self, one: Living, chance: random.Random) -> None:
        self._write_passing(one, {})

    def oddity(self, one: Living, chance: random.Random) -> None:
        """A record that has no JSON form, in place of one that had, or the other way round."""
        if one.status == "active":
            old = one.state.records.get(PASSING)
            odd = old is None or isinstance(record_text(old), bytes)
            self._write_passing(one, {PASSING: encode({"n": ODD if odd else 1})})

    def _write_passing(self, one: Living, passing: Mapping[str, bytes]) -> None:
        stay = {path: data for path, data in one.state.records.items() if path != PASSING}
        self._tell(one, "#commit", self._commit(one, {**stay, **passing}).payload())

    def hush(self, one: Living, chance: random.Random) -> None:
        """A commit that nobody is told of, and then one that they are."""
        if one.status == "active":
            self._commit(one, edited(one.state.records, chance))
            self.write(one, chance)

    def silent_prev(self, one: Living, chance: random.Random) -> None:
        """As servers of before Sync 1.1 tell it."""
        if one.status == "active":
            story = self._commit(one, edited(one.state.records, chance))
            self._tell(one, "#commit", story.payload(with_prev_data=False))

    def sync(self, one: Living, chance: random.Random) -> None:
        if one.status == "active":
            changed = chance.random() < 0.5
            records = edited(one.state.records, chance) if changed else one.state.records
            self._tell(one, "#sync", self._commit(one, records).sync_payload())

    def pause(self, one: Living, chance: random.Random) -> None:
        if one.status == "active":
            one.status = chance.choice(("deactivated", "takendown", "suspended"))
            self.were_away.add(one.did)
            self._tell(one, "#account", {"active": False, "status": one.status})

    def resume(self, one: Living, chance: random.Random) -> None:
        if one.status != "active":
            one.status = "active"
            self._tell(one, "#account", {"active": True})
            if chance.random() < 0.3:
                self.write(one, chance)

    def leave(self, one: Living, chance: random.Random) -> None:
        one.status = "deleted"
        self.were_away.add(one.did)
        self.logs[one.home].erase(one.did)
        self._tell(one, "#account", {"active": False, "status": "deleted"})

    def rotate(self, one: Living, chance: random.Random) -> None:
        if one.status == "active":
            one.key = chance.choice([key for key in KEYS if key != one.key])
            if chance.random() < 0.7:
                self._tell(one, "#identity", {"handle": "a.b.example"})
            self.write(one, chance)

    def move(self, one: Living, chance: random.Random) -> None:
        if one.status != "active" or self.spec.hosts < 2:
            return
        self._change_home(one, chance, 0.5)
        story = self._commit(one, one.state.records)
        self._tell(one, "#sync", story.sync_payload())

    def _change_home(self, one: Living, chance: random.Random, key_share: float) -> None:
        self._tell(one, "#account", {"active": False, "status": "deactivated"})
        # Every answer is true, and yet a visit finds who moves again before it ends nowhere.
        visit = _LONGEST_VISIT * (self.spec.latency + self.spec.way_back)
        if self.now() < one.moved_at + visit:
            self.were_away.add(one.did)
        one.moved_at = self.now()
        one.former.add(one.home)
        one.home = (one.home + 1 + chance.randrange(self.spec.hosts - 1)) % self.spec.hosts
        one.former.discard(one.home)
        if chance.random() < key_share:
            one.key = chance.choice(KEYS)
        self._tell(one, "#identity", {"handle": "a.b.example"})
        self._tell(one, "#account", {"active": True})

    def drift(self, one: Living, chance: random.Random) -> None:
        """As the reference server lets accounts come: its repository is signed by a key that is
        not the account's any more, until something is written."""
        if one.status != "active" or self.spec.hosts < 2:
            return
        self._change_home(one, chance, 1.0)
        assert one.story is not None
        self._tell(one, "#sync", one.story.sync_payload())
        self._drifted.add(one.did)

    def forge(self, one: Living, chance: random.Random) -> None:
        """Somebody else tells of a commit that the account never made."""
        if one.status != "active":
            return
        records = {**one.state.records, "app.bsky.feed.post/forged": encode({"text": "forged"})}
        key = chance.choice([key for key in KEYS if key != one.key])
        story = commit_of(one.state, records, self._rev(one), key)
        payload = chance.choice((story.payload(), story.sync_payload()))
        kind = "#commit" if "repo" in payload else "#sync"
        self._tell_falsely(one, kind, payload, chance)

    def slander(self, one: Living, chance: random.Random) -> None:
        """Somebody else says that the account is gone."""
        told = {"active": False, "status": chance.choice(("deleted", "takendown"))}
        self._tell_falsely(one, "#account", told, chance)

    def lie(self, one: Living, chance: random.Random) -> None:
        """The account's own server tells of a record that is not in the tree."""
        if one.status != "active":
            return
        payload = self._commit(one, edited(one.state.records, chance)).payload()
        record = encode({"text": "invented"})
        op = {"action": "create", "path": "app.bsky.feed.post/lie", "cid": cid_of(record)}
        told = self._signed(one, "#commit", {**payload, "ops": [*payload["ops"], op]})
        self.logs[one.home].add(one.did, "#commit", told)

    def _close(self) -> None:
        """The relays tell the truth, at last."""
        for log in self.logs:
            log.listeners[1:] = [self._pass_on]
        for one in self.accounts.values():
            status = {} if one.status == "active" else {"status": one.status}
            self._tell(one, "#identity", {"handle": "a.b.example"})
            self._tell(one, "#account", {"active": not status, **status})
            self.write(one, self._random)

    def _note(self, name: str, event: LoggedEvent) -> None:
        # A relay that changes something makes another object.
        if any(event.payload is true for true in self._true):
            self.named[name, event.did] = self.now()

    def _pass_on(self, event: LoggedEvent) -> None:
        for relay in self.relays.values():
            relay.log.add(event.did, event.kind, event.payload)

    def _commit(self, one: Living, records: Mapping[str, bytes]) -> CommitStory:
        self._drifted.discard(one.did)
        one.story = commit_of(one.state, records, self._rev(one), one.key)
        one.state = one.story.after
        self.history |= {(one.did, path, str(cid_of(data))) for path, data in records.items()}
        return one.story

    def _rev(self, one: Living) -> str:
        now_us = int(self.now() * 1e6)
        return tid(max(now_us, tid_time_us(one.state.rev) + 1 if one.state.rev else 0), 7)

    def _tell(self, one: Living, kind: str, payload: Mapping[str, Any]) -> None:
        told = self._signed(one, kind, payload)
        if kind in ("#commit", "#sync"):
            self._true.append(told)
        if kind == "#identity":
            self.identities.add((one.did, told["time"]))
        self.logs[one.home].add(one.did, kind, told)

    def _tell_falsely(
        self, one: Living, kind: str, payload: Mapping[str, Any], chance: random.Random
    ) -> None:
        others = [relay.log for relay in self.relays.values()]
        others += [log for n, log in enumerate(self.logs) if n != one.home]
        chance.choice(others).add(one.did, kind, self._signed(one, kind, payload))

    def _signed(self, one: Living, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        whose = {} if kind == "#commit" else {"did": one.did}
        return {**whose, **payload, "time": iso_time(int(self.now() * 1000))}

    def truth(self) -> dict[str, dict[str, str]]:
        """CIDs by path of records that have a JSON form, of every account that is served."""
        found = {
            one.did: {
                path: str(cid_of(data))
                for path, data in one.state.records.items()
                if isinstance(record_text(data), bytes)
            }
            for one in self.accounts.values()
            if one.status == "active"
        }
        return {did: records for did, records in found.items() if records}


def edited(records: Mapping[str, bytes], chance: random.Random) -> dict[str, bytes]:
    """Some come, change and go."""
    after = dict(records)
    for _ in range(chance.choice((1, 1, 1, 2, 5, 12))):
        what = chance.random()
        if what < 0.55 or not after:
            path = f"{chance.choice(COLLECTIONS)}/{chance.randrange(10_000)}"
        else:
            path = chance.choice(sorted(after))
        if what < 0.8:
            odd = ODD if chance.random() < 0.07 else None
            after[path] = encode({"text": f"{path} {chance.random()}", "n": [1, {"a": odd}]})
        else:
            after.pop(path, None)
    return after


def answer(world: LivingWorld, url: str) -> Answer:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    origin, method = f"https://{parts.netloc}", parts.path.rpartition(".")[2]
    if origin == PLC:
        return _document(world, parts.path.strip("/"))
    if origin in world.relays:
        names = [urlsplit(url).netloc for url in world.urls]
        return _json({"hosts": [{"hostname": name, "status": "active"} for name in names]})
    host = world.urls.index(origin)
    if method == "listRepos":
        return _listing(world, host, query)
    one = world.accounts.get(query.get("did", ""))
    state = "deleted" if one is None else _status_on(one, host)
    if one is None or state != "active":
        return _json({"error": ERRORS[state], "message": "no"}, 400)
    if method == "getLatestCommit":
        assert one.story is not None
        return _json({"cid": str(one.story.head.cid), "rev": one.state.rev})
    return Answer(200, one.car())


def _status_on(one: Living, host: int) -> str:
    if host == one.home:
        return one.status
    return "deactivated" if host in one.former and one.status != "deleted" else "deleted"


def _listing(world: LivingWorld, host: int, query: Mapping[str, str]) -> Answer:
    """A cursor stays where it is when accounts before it leave."""
    numbered = enumerate(world.accounts.values(), 1)
    listed = [(at, one) for at, one in numbered if _status_on(one, host) != "deleted"]
    last = int(query.get("cursor", "0"))
    later = [(at, one) for at, one in listed if at > last]
    here = later[: min(world.spec.page, int(query["limit"]))]
    rows = []
    for _, one in here:
        status = _status_on(one, host)
        said = {} if status == "active" else {"status": status}
        head = str(one.story.head.cid) if one.story else ""
        row = {"did": one.did, "head": head, "rev": one.state.rev, "active": not said}
        rows.append({**row, **said})
    return _json({"repos": rows} | ({"cursor": str(here[-1][0])} if len(here) < len(later) else {}))


def _document(world: LivingWorld, did: str) -> Answer:
    one = world.accounts.get(did)
    if one is None:
        return _json({"message": "DID not registered"}, 404)
    key = parse_did_key(one.key.did_key).multibase
    service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
    method = {"id": f"{did}#atproto", "type": "Multikey", "controller": did}
    return _json(
        {
            "id": did,
            "verificationMethod": [method | {"publicKeyMultibase": key}],
            "service": [service | {"serviceEndpoint": world.url(one.home)}],
        }
    )


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})
