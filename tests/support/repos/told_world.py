"""A small network and its perfect follower: each act goes to the archive, then to the event log."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.repos.living import KEY_BYTES, pack
from trawlnet.archive.format.folding import ArchivedState, StateRecord, make_delta
from trawlnet.archive.format.json_plain import record_json
from trawlnet.archive.segment_file import check
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.archive.writer import SegmentWriter
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.tid import tid
from trawlnet.crawlers.repos.events.event import AccountEvent, Operation, RecordEvent, RepoEvent
from trawlnet.crawlers.repos.events.event_log import RETENTION, EventLog
from trawlnet.queues.queue import Retention

COLLECTIONS = ("app.bsky.feed.post", "app.bsky.graph.follow", "com.example.note")
DIGITS = "234567abcdefghijklmnopqrstuvwxyz"
SIGNED = (KEY_BYTES, b"\1" * 64)
PDS = "https://pds.example"

State = dict[str, dict[str, str]]  # CIDs by DID and path.


@dataclass
class ToldWorld:
    """`now` is Unix seconds, and goes on with every act."""

    workspace: Path
    seed: int
    now: float = 1_750_000_000.0
    retention: Retention = RETENTION
    pauses: Sequence[float] = (0.001, 0.5, 5.0, 900.0)
    truth: State = field(default_factory=dict)
    revs: dict[str, str] = field(default_factory=dict)

    async def open(self) -> ToldWorld:
        self.rng = random.Random(self.seed)
        self.writer = SegmentWriter(self.workspace / "archive", lambda: self.now)
        self.log = await EventLog.open(self.workspace, lambda: self.now, self.retention)
        return self

    async def close(self) -> None:
        self.writer.close()
        await self.log.close()

    async def act(self) -> None:
        """Somebody joins, writes or leaves."""
        self.now += self.rng.choice(self.pauses)
        luck = self.rng.random()
        if not self.truth or luck < 0.15:
            await self.join()
        elif luck < 0.95:
            await self.write(self.rng.choice(sorted(self.truth)))
        else:
            await self.leave(self.rng.choice(sorted(self.truth)))

    async def join(self) -> None:
        did = "did:plc:" + "".join(self.rng.choices(DIGITS, k=24))
        rev, records = self._rev(did), dict(self._record() for _ in range(self.rng.randrange(5)))
        state = ArchivedState(did, PDS, rev, self._us(), *SIGNED, _states(records))
        await self._tell(pack(state), _writes(did, rev, "create", records))
        self.truth[did] = {path: _cid(value) for path, value in records.items()}

    async def write(self, did: str) -> None:
        since, rev, known = self.revs[did], self._rev(did), self.truth[did]
        gone = [path for path in known if self.rng.random() < 0.3]
        changed = {p: self._record()[1] for p in known if p not in gone and self.rng.random() < 0.3}
        new = dict(self._record() for _ in range(self.rng.randrange(3)))
        new = {path: value for path, value in new.items() if path not in known}
        encoded = {path: encode(value) for path, value in (changed | new).items()}
        delta = make_delta(
            (did, PDS), (rev, self._us()), SIGNED, since=since, changed=encoded, deleted=gone
        )
        events = [
            *(_delete(did, rev, path) for path in gone),
            *_writes(did, rev, "update", changed),
            *_writes(did, rev, "create", new),
        ]
        await self._tell(pack(delta), events)
        for path in gone:
            del known[path]
        known.update({path: _cid(value) for path, value in (changed | new).items()})

    async def leave(self, did: str) -> None:
        append_tombstones(self.workspace / "archive", [Tombstone(did, "not_found", self._us())])
        await self.log.append([AccountEvent(did, False, "deleted", self._us(), _ISO)])
        del self.truth[did]

    async def _tell(self, block: bytes, events: list[RepoEvent]) -> None:
        self.writer.append([check(block)])
        await self.log.append(events)

    def _us(self) -> int:
        self.now += 0.001
        return int(self.now * 1e6)

    def _rev(self, did: str) -> str:
        self.revs[did] = tid(self._us())
        return self.revs[did]

    def _record(self) -> tuple[str, dict[str, Any]]:
        collection = self.rng.choice(COLLECTIONS)
        value = {"$type": collection, "text": f"{self.rng.random()}", "n": self.rng.randrange(99)}
        return f"{collection}/{self.rng.randrange(30)}", value


_ISO = "2026-01-01T00:00:00.000Z"


def _cid(value: Mapping[str, Any]) -> str:
    return str(cid_of(encode(value)))


def _text(value: Mapping[str, Any]) -> bytes:
    return record_json(encode(value), keep_cids=True)


def _states(records: Mapping[str, Any]) -> dict[bytes, StateRecord]:
    return {
        path.encode(): StateRecord(cid_of(encode(value)).raw, _text(value))
        for path, value in sorted(records.items())
    }


def _writes(did: str, rev: str, word: Operation, records: Mapping[str, Any]) -> list[RepoEvent]:
    found: list[RepoEvent] = []
    for path, value in records.items():
        collection, rkey = path.split("/", 1)
        found.append(RecordEvent(did, rev, word, collection, rkey, _cid(value), _text(value)))
    return found


def _delete(did: str, rev: str, path: str) -> RecordEvent:
    collection, rkey = path.split("/", 1)
    return RecordEvent(did, rev, "delete", collection, rkey, None, None)


class Folding:
    """What a client of Jetstream's makes of its messages; it keeps the latest time, as they do."""

    def __init__(self, cursor: int = 1) -> None:
        self.state: State = {}
        self.cursor = cursor

    def take(self, text: str) -> None:
        message = json.loads(text)
        self.cursor = max(self.cursor, message["time_us"])
        did, commit = message["did"], message.get("commit")
        if commit is not None:
            path = f"{commit['collection']}/{commit['rkey']}"
            if commit["operation"] == "delete":
                self.state.get(did, {}).pop(path, None)
            else:
                self.state.setdefault(did, {})[path] = commit["cid"]
        elif message["kind"] == "account" and not message["account"]["active"]:
            self.state.pop(did, None)

    def matches(self, truth: State) -> bool:
        return with_records(self.state) == with_records(truth)


def with_records(state: State) -> State:
    """An account without records says nothing."""
    return {did: records for did, records in state.items() if records}
