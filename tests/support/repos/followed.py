"""Follow a simulated network with the real command, and judge from outside what came of it."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.program import PATIENCE, Started
from trawlnet.archive.format.record_text import record_text
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.reading.archive import open_archive
from trawlnet.sim.atproto.accounts import Account, AccountStatus
from trawlnet.sim.atproto.live.relay_stream import HONEST, Mischief, Spoiler
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.habits import Habit

Content = Mapping[
    str, Mapping[str, str]
]  # CIDs by path, by DID; accounts without records left out.

FAST_FLAGS = (
    "--allow-private-hosts",
    *("--default-pds-rps", "500", "--small-pds-rps", "500", "--large-pds-rps", "500"),
    *("--plc-rps", "1000", "--retry-base", "0.05", "--request-timeout", "10"),
    *("--resync-pause", "0.2", "--resyncs-per-hour", "1000000"),
)


class LiveWorld:
    """A network in a thread of the test, in which things happen when the test says so."""

    def __init__(self, world: AtprotoWorld, loop: asyncio.AbstractEventLoop) -> None:
        self.world = world
        self._loop = loop

    def acts(self, count: int) -> None:
        """So many happen, one after the other, with the servers at work in between."""

        async def happen() -> None:
            for _ in range(count):
                self.world.life.act()
                await asyncio.sleep(0)

        self.run(happen())

    def writers(self) -> list[Account]:
        """Accounts that can write, on servers that work."""
        population = self.world.population
        accounts = [population.account(index) for index in range(len(population))]
        hosts = population.plan.hosts
        return [
            one
            for one in accounts
            if one.status is AccountStatus.ACTIVE and hosts[one.host].habit is Habit.GOOD
        ]

    def write(self, accounts: Sequence[Account], *mischief: Mischief) -> None:
        """Each of them writes once, and the relay tells of it in its way."""

        async def happen() -> None:
            relay = self.world.relay_stream
            relay._spoiler = Spoiler(1.0, mischief) if mischief else HONEST
            for account in accounts:
                self.world.life.write(account)
            relay._spoiler = HONEST

        self.run(happen())

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def truth(self) -> Content:
        """The records of every account that is served, as far as an archive holds them."""
        return self._content(lambda data: str(cid_of(data)))

    def texts(self) -> Content:
        """The same as JSON."""
        return self._content(lambda data: _text(data) or "")

    def _content(self, shown: Callable[[bytes], str]) -> Content:
        async def look() -> Content:
            found = {}
            for index, did in enumerate(self.world.population.dids):
                account = self.world.population.account(index)
                if account.status is AccountStatus.ACTIVE:
                    records = self.world.life._shelf.volume(account).writings.records
                    encoded = {path: encode(value) for path, value in records.items()}
                    found[did] = {
                        path: shown(data)
                        for path, data in encoded.items()
                        if _text(data) is not None
                    }
            return {did: records for did, records in found.items() if records}

        content: Content = self.run(look())
        return content


def _text(data: bytes) -> str | None:
    text = record_text(data)
    return text.decode() if isinstance(text, bytes) else None


@contextmanager
def live_world(seed: int, folder: Path, **more: Any) -> Iterator[LiveWorld]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE)

    try:
        serving = serve_atproto(seed, habits=(), manifest=folder / "manifest.json", **more)
        world = run(serving)
        try:
            yield LiveWorld(world, loop)
        finally:
            run(world.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass(slots=True)
class FoldedEvents:
    """What a consumer knows that has applied every event once, by its id."""

    records: dict[str, dict[str, str]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    lines: int = 0
    wrong: list[str] = field(default_factory=list)  # Events that do not fit what was before.

    def apply(self, event: Mapping[str, Any]) -> None:
        self.lines += 1
        if event["id"] in self.ids:
            return
        self.ids.add(event["id"])
        if event["kind"] == "account" and not event["active"]:
            self.records.pop(event["did"], None)
        elif event["kind"] == "commit":
            self._apply_record(event)

    def _apply_record(self, event: Mapping[str, Any]) -> None:
        mine = self.records.setdefault(event["did"], {})
        path = f"{event['collection']}/{event['rkey']}"
        is_there = path in mine
        if (event["operation"] == "create") is is_there:
            self.wrong.append(f"{event['operation']} of {event['did']}/{path} at {event['rev']}")
        if event["operation"] == "delete":
            mine.pop(path, None)
        else:
            mine[path] = event["cid"]

    @property
    def content(self) -> Content:
        return {did: dict(records) for did, records in self.records.items() if records}


def folded_events(workspace: Path) -> FoldedEvents:
    """Read as files: each line is an event, the last one may be in the making."""
    folded = FoldedEvents()
    for path in sorted((workspace / "spool" / "repo_events").glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            folded.apply(json.loads(line))
    return folded


def archived_texts(workspace: Path) -> Content:
    """Records as JSON, as everybody reads them."""
    found: dict[str, dict[str, str]] = {}
    for one in open_archive(workspace / "archive").records():
        found.setdefault(one.did, {})[f"{one.collection}/{one.rkey}"] = one.json.decode()
    return found


def differences(found: Content, truth: Content, most: int = 10) -> list[str]:
    wrong = []
    for did in sorted(found.keys() | truth.keys()):
        mine, real = found.get(did, {}), truth.get(did, {})
        wrong += [f"{did}/{path} is missing" for path in sorted(real.keys() - mine.keys())]
        wrong += [f"{did}/{path} is there still" for path in sorted(mine.keys() - real.keys())]
        both = sorted(mine.keys() & real.keys())
        wrong += [f"{did}/{path} is another" for path in both if mine[path] != real[path]]
    return wrong[:most] + ([f"and {len(wrong) - most} more"] if len(wrong) > most else [])


def follow_flags(world: AtprotoWorld, *upstreams: str) -> tuple[str, ...]:
    return ("--plc-url", world.plc, *FAST_FLAGS, *(upstreams or ("--relay", world.relay)))


@contextmanager
def following(folder: Path, verb: str, workspace: Path, *flags: str) -> Iterator[Started]:
    """The command at work; it is stopped as people stop it, and must have saved everything."""
    command = ("repos", verb, "-w", workspace, *flags)
    started = Started(command, folder / "output", {})
    try:
        yield started
        started.tell(signal.SIGTERM)
        ran = started.ended()
        assert ran.code == 130, ran.err
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait(PATIENCE)
