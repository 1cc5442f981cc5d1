"""What must hold of every follower: judged by what it has published, by the archive it leaves, and
by the log of the servers."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.random_worlds.follow_world import LivingWorld
from tests.random_worlds.repos_world import Row
from trawlnet.archive.format.json_cbor_plain import record_cbor
from trawlnet.archive.verify import verify_segment
from trawlnet.atproto.cid import cid_of
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.reading.archive import open_archive

Content = Mapping[str, Mapping[str, str]]  # CIDs by path, by DID.

ROUNDING = 1e-5  # Seconds.
_BURST = 0.1  # Of an hour's visits may be at once.


@dataclass(slots=True)
class Consumer:
    """Applies every event once, by its id."""

    records: dict[str, dict[str, str]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    repeated: int = 0
    away: set[str] = field(default_factory=set)  # DIDs that are said to be.
    odd: list[str] = field(default_factory=list)  # Events that do not fit what was before.
    last_us: int = 0

    def apply(self, event: Mapping[str, Any]) -> None:
        assert event["time_us"] > self.last_us, "time went back"
        self.last_us = event["time_us"]
        if event["id"] in self.ids:
            self.repeated += 1
            return
        self.ids.add(event["id"])
        if event["kind"] == "account":
            self._apply_account(event)
        elif event["kind"] == "commit":
            self._apply_record(event)

    def _apply_account(self, event: Mapping[str, Any]) -> None:
        """Each is said to be gone, and to be back, in turn."""
        did = event["did"]
        if event["active"] is not (did in self.away):
            self.odd.append(f"{did} is {event['status'] or 'active'} once more")
        if event["active"]:
            self.away.discard(did)
        else:
            self.away.add(did)
            self.records.pop(did, None)

    def _apply_record(self, event: Mapping[str, Any]) -> None:
        mine = self.records.setdefault(event["did"], {})
        path = f"{event['collection']}/{event['rkey']}"
        if (event["operation"] == "create") is (path in mine):
            self.odd.append(f"{event['operation']} of {event['did']}/{path} at {event['rev']}")
        if event["operation"] == "delete":
            mine.pop(path, None)
        else:
            mine[path] = event["cid"]
            assert cid_of_json(event["record"]) == event["cid"], event

    @property
    def content(self) -> Content:
        return {did: dict(records) for did, records in self.records.items() if records}


def cid_of_json(record: Any) -> str:
    return str(cid_of(record_cbor(_compact(record))))


def _compact(record: Any) -> bytes:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def events_in(workspace: Path) -> list[dict[str, Any]]:
    folder = workspace / "spool" / "repo_events"
    lines = [path.read_bytes().split(b"\n")[:-1] for path in sorted(folder.glob("*.jsonl"))]
    return [json.loads(line) for several in lines for line in several]


def consumed(workspace: Path) -> Consumer:
    consumer = Consumer()
    for event in events_in(workspace):
        consumer.apply(event)
    return consumer


def archived(workspace: Path) -> Content:
    segments = sorted((workspace / "archive").glob("*.rca"))
    for path in segments:
        assert verify_segment(path).sound, path
    if not segments:
        return {}
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for one in open_archive(workspace / "archive").records():
        cid = str(cid_of(record_cbor(one.json)))
        found[one.did][f"{one.collection}/{one.rkey}"] = cid
    return found


def differences(found: Content, truth: Content, dids: Collection[str]) -> list[str]:
    wrong = []
    for did in sorted(dids):
        mine, real = found.get(did, {}), truth.get(did, {})
        wrong += [f"{did}/{path} is missing" for path in sorted(real.keys() - mine.keys())]
        wrong += [f"{did}/{path} is there still" for path in sorted(mine.keys() - real.keys())]
        both = sorted(mine.keys() & real.keys())
        wrong += [f"{did}/{path} is another" for path in both if mine[path] != real[path]]
    return wrong


def check_nothing_invented(world: LivingWorld, workspace: Path, *, is_compacted: bool) -> None:
    """No event and no archived record that no repository ever had, and nobody is said to be gone
    who was always there. Only who compacts what a kill has left has consumers begin anew."""
    for event in events_in(workspace):
        if event["kind"] == "commit" and event["operation"] != "delete":
            path = f"{event['collection']}/{event['rkey']}"
            assert (event["did"], path, event["cid"]) in world.history, event
        if event["kind"] == "account" and not event["active"]:
            begins_anew = is_compacted and event["status"] == "desynchronized"
            assert event["did"] in world.were_away or begins_anew, event
    for did, records in archived(workspace).items():
        for path, cid in records.items():
            assert (did, path, cid) in world.history, (did, path, cid)


def check_identities(world: LivingWorld, workspace: Path) -> None:
    """A change of an identity is one event with one id, whoever tells of it and however often."""
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events_in(workspace):
        if event["kind"] == "identity":
            ids[event["did"], event["time"]].add(event["id"])
    assert ids.keys() <= world.identities
    several = {change: found for change, found in ids.items() if len(found) > 1}
    assert not several, several


def check_manners(world: LivingWorld, config: ReposConfig) -> None:
    """All rates of a config are the same here; a WebSocket's opening is a request like any."""
    for (host, run), rows in _by_place(world.log).items():
        rate = config.plc_rps if host.startswith("plc") else config.default_pds_rps
        for before, after in pairwise(rows):
            gap = after.start - before.start
            assert gap >= 1.0 / rate - ROUNDING, f"{host}, run {run}: {gap} s: {before} {after}"


def check_resyncs(world: LivingWorld, config: ReposConfig) -> None:
    """No more repositories of a server are fetched than so many an hour, and a few at once. Those
    whose turn came while it failed are fetched when it is back."""
    per_hour = config.resyncs_per_hour
    for (host, run), rows in _by_place(world.log).items():
        starts = [row.start for row in rows if "getRepo?" in row.path and row.status == 200]
        failed = min((row.start for row in rows if row.status == 503), default=math.inf)
        for first, begin in enumerate(starts):
            since = min(begin, failed)
            for count, end in enumerate(starts[first:], 1):
                most = max(1.0, _BURST * per_hour) + (end - since + 1.0) * per_hour / 3600 + 1
                assert count <= most, f"{host}, run {run}: {count} in {end - begin} s"


def _by_place(log: list[Row]) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in sorted(log, key=lambda row: row.start):
        found[row.host, row.run].append(row)
    return found


def matching(content: Content, is_wanted: Callable[[str], bool]) -> Content:
    """As far as collections are followed."""
    found = {
        did: {path: cid for path, cid in records.items() if is_wanted(path.partition("/")[0])}
        for did, records in content.items()
    }
    return {did: records for did, records in found.items() if records}
