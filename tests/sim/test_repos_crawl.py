"""The repos crawler over a simulated network: everything that can be had is had, once."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trawlnet.crawlers.repos.build import CARS, INDEX, open_parts
from trawlnet.crawlers.repos.config import ReposConfig, limits
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import crawl
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts, Ledger
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics import Metrics, StatusClass
from trawlnet.sim.atproto.accounts import Status
from trawlnet.sim.atproto.shelf import Shelf
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.habits import Habit
from trawlnet.sink.records import latest, read_index

FAST: dict[str, Any] = {
    "allow_private_hosts": True,
    "default_pds_rps": 500,
    "attempts": 4,
    "retry_base": 0.05,
    "request_timeout": 10,
    "max_repo_size": "20MB",
}


@dataclass(frozen=True, slots=True)
class Crawled:
    ending: Ending
    counts: Counts
    failures: dict[str, Reason]
    metrics: Metrics
    tally: Counter[Reason]


async def run(world: AtprotoWorld, workspace: Path, **more: Any) -> Crawled:
    config = ReposConfig(relay=(world.relay,), **(FAST | more))
    clock = SystemClock()
    metrics = Metrics("repos", clock)
    async with open_parts(config, workspace, clock, metrics) as parts:
        control = Control(config.workers)
        ending = await crawl(parts, limits(config), control)
        store: Ledger = parts.store  # type: ignore[assignment]
        failures = {one.key: one.reason async for one in store.failures()}
        return Crawled(ending, await store.counts(), failures, metrics, control.tally)


def lane(url: str) -> str:
    return url.removeprefix("http://")


def wanted(world: AtprotoWorld) -> dict[str, str]:
    """Key and content of every repository that a patient crawler must end up with."""
    manifest = json.loads(world.manifest.read_bytes())
    shelf, population = Shelf(world.population), world.population
    return {
        f"{did}@{lane(row['pds'])}": hashlib.sha256(shelf.car(population.account(n))).hexdigest()
        for n, (did, row) in enumerate(manifest["dids"].items())
        if row["archivable"] and manifest["hosts"][row["pds"]]["on_relay"]
    }


def archived(workspace: Path) -> dict[str, str]:
    """What is on disk, by key; the bodies are there and are what their names say."""
    found = {}
    for key, record in latest(workspace / INDEX).items():
        sha256 = record.bodies[0].sha256
        car = workspace / CARS / sha256[:2] / sha256[2:4] / f"{sha256}.car"
        assert hashlib.sha256(car.read_bytes()).hexdigest() == sha256
        found[key] = sha256
    return found


def test_a_well_behaved_network_is_archived_whole(tmp_path: Path) -> None:
    async def main() -> tuple[Crawled, dict[str, str]]:
        world = await serve_atproto(3, accounts=150, hosts=5, habits=())
        try:
            return await run(world, tmp_path), wanted(world)
        finally:
            await world.close()

    crawled, expected = asyncio.run(main())
    assert crawled.ending is Ending.DONE
    assert len(expected) > 80
    assert archived(tmp_path) == expected
    assert len(list(read_index(tmp_path / INDEX))) == len(expected)
    assert crawled.counts.open == 0
    assert crawled.metrics.http.requests[StatusClass.SUCCESS] == len(expected) + 1 + 10
    assert sum(crawled.tally.values()) == crawled.metrics.http.requests.total()
    assert crawled.metrics.http.inflated > crawled.metrics.http.wire > 0


def test_inactive_accounts_are_on_record_with_their_own_reason(tmp_path: Path) -> None:
    async def main() -> tuple[Crawled, dict[str, Reason]]:
        world = await serve_atproto(3, accounts=150, hosts=5, habits=())
        try:
            manifest = json.loads(world.manifest.read_bytes())
            reasons = {
                f"{did}@{lane(row['pds'])}": Reason(row["status"])
                for did, row in manifest["dids"].items()
                if row["status"] in (Status.DEACTIVATED, Status.TAKENDOWN, Status.SUSPENDED)
            }
            moved = {
                f"{did}@{lane(row['former_pds'])}": Reason.DEACTIVATED
                for did, row in manifest["dids"].items()
                if "former_pds" in row and row["status"] not in ("deleted", "tombstoned", "junk")
            }
            return await run(world, tmp_path), reasons | moved
        finally:
            await world.close()

    crawled, expected = asyncio.run(main())
    assert crawled.failures == expected
    assert set(expected.values()) == {Reason.DEACTIVATED, Reason.TAKENDOWN, Reason.SUSPENDED}


def test_bad_hosts_cost_nothing_of_the_good_ones(tmp_path: Path) -> None:
    bad = (
        Habit.FLAPPING, Habit.DEAD, Habit.LYING, Habit.ENDLESS_CURSOR, Habit.TRUNCATING,
        Habit.SERVER_ERROR, Habit.BOMB, Habit.REDIRECT_PRIVATE, Habit.GARBAGE,
    )  # fmt: skip

    async def main() -> tuple[Crawled, dict[str, str], dict[str, Habit]]:
        world = await serve_atproto(5, accounts=200, hosts=14, habits=dict.fromkeys(bad, 1))
        habit_of = {lane(one.url): one.habit for one in world.plan.hosts if one.on_relay}
        try:
            return await run(world, tmp_path), wanted(world), habit_of
        finally:
            await world.close()

    crawled, expected, habit_of = asyncio.run(main())
    assert crawled.ending is Ending.DONE
    found = archived(tmp_path)
    assert {key: found.get(key) for key in expected} == expected
    assert all(habit_of[key.split("@")[1]] == Habit.LYING for key in found.keys() - expected)
    listings = {
        habit_of[key.removeprefix("list:repos:http://").rsplit(":", 1)[0]]
        for key in crawled.failures
        if key.endswith(":") and key.startswith("list:repos:")
    }
    # A host that cannot even be listed is on record, too.
    unlistable = {Habit.DEAD, Habit.SERVER_ERROR, Habit.GARBAGE, Habit.TRUNCATING, Habit.BOMB}
    assert unlistable & set(habit_of.values()) <= listings
    assert len(listings) >= 4
    assert sum(crawled.tally.values()) == sum(crawled.counts.attempts.values())


def test_a_crawl_in_pieces_comes_to_the_same_and_asks_nothing_twice(tmp_path: Path) -> None:
    async def main() -> tuple[list[Crawled], dict[str, str], int]:
        world = await serve_atproto(3, accounts=100, hosts=4, habits=())
        try:
            pieces = [await run(world, tmp_path, max_tasks=25)]
            while pieces[-1].ending is Ending.LIMIT:
                pieces.append(await run(world, tmp_path, max_tasks=25))
            return pieces, wanted(world), sum(world.served.turns.values())
        finally:
            await world.close()

    pieces, expected, requests = asyncio.run(main())
    assert len(pieces) > 3
    assert archived(tmp_path) == expected
    assert len(list(read_index(tmp_path / INDEX))) == len(expected)
    assert requests == sum(pieces[-1].counts.attempts.values()) == pieces[-1].counts.known
