"""Bad hosts asked for repositories: each has its own word, and costs the good ones nothing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from repos_run import Crawled, Truth, archived, put_up_mirror, run
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
    Habit.DRIP: {Reason.TIMEOUT, Reason.BLOCKED},
    Habit.GARBAGE: {Reason.CONNECTION_ERROR, Reason.BLOCKED},  # Not even HTTP.
    Habit.LYING: {Reason.PARSE_ERROR},
}


def test_each_habit_has_its_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[Crawled, Truth]:
        world = await serve_atproto(8, accounts=160, hosts=16, habits=dict.fromkeys(WORDS, 1))
        try:
            put_up_mirror(world, monkeypatch)
            # Long enough for a busy machine; the host that drips is left alone after two tries.
            more = {"request_timeout": 4, "max_repo_size": "2MB", "attempts": 2, "block_after": 2}
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
        assert words & WORDS[Habit(habit)], habit
        # All servers share a loop with the crawl: while one makes a bomb, others may be late.
        assert words <= WORDS[Habit(habit)] | {Reason.TIMEOUT, Reason.BLOCKED}, habit
