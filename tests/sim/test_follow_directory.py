"""A mirrored directory is followed as well: keys are known before commits need them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import PATIENCE, Started, trawlnet
from tests.support.repos.followed import (
    LiveWorld,
    archived_texts,
    follow_flags,
    following,
    live_world,
)
from trawlnet.archive.reader import NoArchive
from trawlnet.crawlers.atproto.reader import Directory
from trawlnet.crawlers.repos.accounts.followed_directory import FollowedDirectory
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.engine.control import Control
from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.lane import lane_of
from trawlnet.sim.atproto.accounts import Account, Story
from trawlnet.sim.atproto.plc_stream import HONEST_STREAM, StreamHabits
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.plc import Cursor, save_cursor

KEYS = "SELECT did, signing_key FROM plc_did_state"


def mirrored(workspace: Path, living: LiveWorld) -> None:
    where = ("-w", workspace, "--plc-url", living.world.plc, "--allow-private-hosts")
    ran = trawlnet("repos", "plc", *where, "--plc-rps", 1000)
    assert ran.code == 0, ran.err


def live(workspace: Path) -> Mapping[str, Any]:
    found = trawlnet("repos", "status", "-w", workspace, "--json").rows[0]
    return dict(found.get("live", {}))


def new_key(living: LiveWorld, account: Account) -> Account:
    """The directory has another key for it, and no firehose says so."""

    async def happen() -> Account:
        population = living.world.population
        ring, at = population.keyring, int(time.time() * 1000)
        other = ring[(ring.index(account.keys[0]) + 7) % len(ring)]
        keys = (other, account.keys[0], *account.keys[2:])
        changed = replace(account, story=Story.ROTATED, keys=keys, changed_ms=at)
        population.enter(changed)
        return changed

    changed: Account = living.run(happen())
    return changed


def until_followed(started: Started, workspace: Path, living: LiveWorld) -> None:
    operations = len(living.world.population.log)

    def is_there() -> bool:
        found = live(workspace).get("directory", {})
        return bool(found.get("up_to_date")) and found["position"] >= operations

    started.until(is_there, "the whole directory")


def documents(log: Path) -> list[str]:
    """The DIDs whose documents the directory was asked for."""
    paths = [json.loads(line)["path"] for line in log.read_text().splitlines()]
    return [path[1:] for path in paths if path.startswith("/did:")]


@pytest.mark.slow
@pytest.mark.parametrize("is_one_command", [True, False])
def test_a_new_key_is_known_before_a_commit_needs_it(is_one_command: bool, tmp_path: Path) -> None:
    workspace, log = tmp_path / "net", tmp_path / "server.log"
    habits = HONEST_STREAM if is_one_command else StreamHabits(refusal=404)
    with live_world(12, tmp_path, accounts=20, hosts=2, log=log, plc_habits=habits) as living:
        flags = follow_flags(living.world)
        crawl = ("crawl", workspace, "--source", "plc", *flags)
        mirrored(workspace, living)
        if not is_one_command:
            assert trawlnet("repos", "crawl", "-w", *crawl[1:]).code in (0, 3)
        words = (*crawl, "--follow") if is_one_command else ("follow", workspace, *flags)
        with following(tmp_path, *words) as started:
            until_archived(started, workspace, living)
            until_followed(started, workspace, living)
            plain = [one for one in living.writers() if one.story is Story.PLAIN]
            changed = [new_key(living, one) for one in plain[:3]]
            until_followed(started, workspace, living)
            living.write(changed)
            started.until(lambda: live(workspace)["verified"] >= len(changed), "the commits")
            until_archived(started, workspace, living)
            assert live(workspace)["rejected"] == {}
            tabled = trawlnet("repos", "query", "-w", workspace, KEYS, "--json").rows
        dids = living.world.population.dids
        known = {one["did"]: one["signing_key"] for one in tabled}
        for one in changed:
            assert known[dids[one.index]] == one.keys[0].did_key
    looked_up = set(documents(log)) & {dids[one.index] for one in changed}
    assert looked_up == set(), "their keys were known"


def until_archived(started: Started, workspace: Path, living: LiveWorld) -> None:
    def is_there() -> bool:
        try:
            found = archived_texts(workspace)
            truth = living.texts().items()  # Only of whom the directory knows: the source.
            return found == {did: one for did, one in truth if did.startswith("did:plc:")}
        except NoArchive:
            return False

    started.until(is_there, "the truth")


def test_tables_that_mirror_another_directory_are_left_as_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path / "tables") as tables, directory_at(NOWHERE) as directory:
            await save_cursor(tables, Cursor("https://other.example", "seq", 7))
            followed = FollowedDirectory(directory, tables, nobody_learns)
            await asyncio.wait_for(followed.run(Control(workers=1)), PATIENCE)
            assert "these tables mirror https://other.example" in followed.facts()["error"]
            assert not followed.facts()["up_to_date"]

    asyncio.run(main())


def test_a_directory_that_was_parked_is_read_again(tmp_path: Path) -> None:
    async def main(url: str, last: int) -> None:
        async with opened(tmp_path / "tables") as tables, directory_at(url) as directory:
            directory.gate.park(lane_of(url), directory.clock.now() + 1000.0)
            followed = FollowedDirectory(directory, tables, nobody_learns)
            running = asyncio.create_task(followed.run(Control(workers=1)))
            async with asyncio.timeout(PATIENCE):
                while not (followed.facts()["position"] >= last and followed.facts()["up_to_date"]):
                    await asyncio.sleep(0.02)
            assert followed.facts()["error"] == ""
            running.cancel()

    with live_world(3, tmp_path, accounts=8, hosts=2) as living:
        asyncio.run(main(living.world.plc, len(living.world.population.log)))


AGENT = "trawlnet-test (+https://trawlnet.invalid/about)"
NOWHERE = "http://127.0.0.1:9"


async def nobody_learns(news: Sequence[RepoIdentity]) -> None:
    pass


class QuickClock(SystemClock):
    """Minutes pass in a moment."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.ahead += max(0.0, seconds)
        await asyncio.sleep(0.005)


@asynccontextmanager
async def directory_at(url: str) -> AsyncIterator[Directory]:
    clock, guard = QuickClock(), Guard(allow_private=True)
    gate = Gate(clock, Manners(rate=1000.0, concurrency=1))
    async with Http(gate, clock, AGENT, guard=guard) as http:
        yield Directory(url, http, gate, clock, allow_private=True)
