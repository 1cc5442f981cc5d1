"""Bad hosts asked for repositories: each has its own word, and costs the good ones nothing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.repos.run import Crawled, Truth, archived, put_up_mirror, run
from trawlnet.engine.outcome import Reason
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.sim.habits import Habit

# What a crawl says in the end about active accounts on hosts of these habits.
WORDS = {
    Habit.DEAD: {Reason.CONNECTION_ERROR, Reason.BLOCKED},
    Habit.SERVER_ERROR: {Reason.UNAVAILABLE, Reason.BLOCKED},
    Habit.TRUNCATING: {Reason.TRUNCATED},
    Habit.HUGE: {Reason.TOO_LARGE},
    Habit.BOMB: {Reason.TOO_LARGE},
    Habit.GARBAGE: {Reason.CONNECTION_ERROR, Reason.BLOCKED},  # Not even HTTP.
    Habit.LYING: {Reason.PARSE_ERROR},
}


@pytest.mark.slow
def test_each_habit_has_its_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[Crawled, Truth]:
        world = await serve_atproto(8, accounts=160, hosts=16, habits=dict.fromkeys(WORDS, 1))
        try:
            put_up_mirror(world, monkeypatch)
            # Each host ends by itself, however busy the machine is: nobody is late.
            more = {"request_timeout": 120, "max_repo_size": "2MB", "attempts": 2, "block_after": 2}
            return await run(world, tmp_path, **more), Truth.of(world)
        finally:
            await world.close()

    crawled, truth = asyncio.run(main())
    assert archived(tmp_path) == truth.archivable(in_plc=True)
    found = defaultdict(set)
    for did, row in truth.rows.items():
        habit = truth.hosts.get(row["pds"], {}).get("habit")
        if row["status"] == "active" and row["in_plc"] and not row["archivable"]:
            found[habit].add(crawled.reasons[did])
    assert found.keys() == WORDS.keys()
    for habit, words in found.items():
        assert words <= WORDS[Habit(habit)] | {Reason.BLOCKED}, habit
        assert words & WORDS[Habit(habit)], habit


def test_a_host_that_drips_is_given_up_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> tuple[Crawled, Truth]:
        world = await serve_atproto(8, accounts=20, hosts=2, habits={Habit.DRIP: 1})
        try:
            put_up_mirror(world, monkeypatch)
            more = {"request_timeout": 1.5, "attempts": 1, "block_after": 2}
            return await run(world, tmp_path, **more), Truth.of(world)
        finally:
            await world.close()

    crawled, truth = asyncio.run(main())
    words = {
        crawled.reasons[did]
        for did, row in truth.rows.items()
        if truth.hosts.get(row["pds"], {}).get("habit") == Habit.DRIP and row["status"] == "active"
    }
    assert Reason.TIMEOUT in words and words <= {Reason.TIMEOUT, Reason.BLOCKED}
