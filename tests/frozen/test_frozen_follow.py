"""A follower that earlier code had killed: told of, and carried on from its cursor to the truth."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.frozen.ice import copies, notes, thaw
from tests.frozen.story import check_story, done
from tests.frozen.worlds import followed_world
from tests.support import child
from tests.support.program import PATIENCE, trawlnet
from tests.support.repos.followed import (
    Content,
    LiveWorld,
    archived_texts,
    differences,
    folded_events,
)
from tests.support.repos.run import FAST
from trawlnet.crawlers.repos.build import open_parts
from trawlnet.crawlers.repos.config import ReposConfig, limits
from trawlnet.crawlers.repos.following.live_store import look_at_states
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics

LATER = 12  # Acts of the world that nobody listened to.


async def follow_until_true(living: LiveWorld, folder: Path) -> None:
    world = living.world
    quick: dict[str, Any] = {"resync_pause": 0.2, "resyncs_per_hour": 1_000_000}
    where = {"relay": (world.relay,), "plc_url": world.plc, "live_tables": "off"}
    config = ReposConfig(**(FAST | quick | where), follow=True)
    clock = SystemClock()
    truth = await asyncio.to_thread(living.truth)
    control = Control(config.workers)

    async def stop() -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while folded_events(folder).content != truth:
                    await asyncio.sleep(0.1)
        finally:
            control.drain()

    metrics = CrawlMetrics("repos", clock)
    async with open_parts(config, folder, clock, metrics) as parts, asyncio.TaskGroup() as group:
        group.create_task(stop())
        await crawl(parts, limits(config), control)


def fetched(log: Path) -> set[str]:
    paths = [urlsplit(json.loads(line)["path"]) for line in log.read_text().splitlines()]
    return {parse_qs(p.query)["did"][0] for p in paths if p.path.endswith(".getRepo")}


def in_step(folder: Path, dids: Collection[str]) -> set[str]:
    states = look_at_states(folder / "state" / "repos", dids)
    return {did for did, one in states.items() if one.is_synchronized and not one.needs_visit}


def check_live_tables(folder: Path) -> None:
    """They go on behind the last event that they had, and end at what the archive has."""
    before = live_rows(folder)
    # One process has one embedded ClickHouse: it cannot be the tests'.
    role = child.module("crash.live_tables_role", folder, 0)
    subprocess.run(role, env=child.environment(), timeout=PATIENCE, check=True)
    after = live_rows(folder)
    assert before and after == archived_texts(folder) and after != before


def live_rows(folder: Path) -> Content:
    sql = "SELECT repo, collection, rkey, record_json FROM repo_records FINAL"
    found: dict[str, dict[str, str]] = {}
    for row in done(trawlnet("repos", "query", "-w", folder, sql, "--json")).rows:
        path = f"{row['collection']}/{row['rkey']}"
        found.setdefault(row["repo"], {})[path] = row["record_json"]
    return found


@pytest.mark.parametrize("name", copies("repos-follow"))
def test_a_killed_follower_is_told_of_and_carried_on(name: str, tmp_path: Path) -> None:
    folder = thaw(name, tmp_path / "w")
    then = notes(folder)
    check_story("repos", folder, verbs=("status",))
    before = folded_events(folder)
    assert sorted(before.ids) == then["events"]
    (tmp_path / "world").mkdir()
    with followed_world(tmp_path / "world") as world:
        living = world.living
        (cursor,) = then["status"][0]["live"]["cursor"].values()
        restless = world.happen(0, then["acts"]) | world.unsettled_after(cursor)
        settled = in_step(folder, living.world.population.dids) - restless
        assert settled and then["waiting"]
        for number in range(LATER):
            world.clock.steps += 1
            living.write([living.writers()[number % 4]])
        asyncio.run(follow_until_true(living, folder))
        events = folded_events(folder)
        assert events.wrong == [] and differences(events.content, living.truth()) == []
        assert differences(archived_texts(folder), living.texts()) == []
        active = living.truth().keys()
        living.world.served._log.flush()
    if (folder / "tables").exists():
        check_live_tables(folder)
    asked = fetched(tmp_path / "world" / "log")
    assert asked >= (set(then["waiting"]) & active) - settled - restless
    assert asked & settled == set(), "in step with the stream, and fetched again"
    assert before.ids < events.ids
    assert events.lines - len(events.ids) <= 1, "published once"
