"""SIGKILL in the middle of a crawl of ids: none is lost, none is claimed, no budget is exceeded."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery, nursery_of
from tests.support.ids.world import (
    AGE,
    QUIET,
    TROUBLE,
    busiest_second,
    config,
    marks,
    published,
    wrongs,
)
from trawlnet.crawlers.ids.model import LedgerMark
from trawlnet.net.clock import SystemClock
from trawlnet.sim.ids import IdsWorld, serve_ids

PATIENCE = 120.0
MAX_RPS = 400.0
KILLS = [100, 150, 1, 100]  # Each after so many more requests.
IN_FLIGHT = 250  # What can be published and not settled when the process dies.


async def killed(world: IdsWorld, nursery: Nursery, role: str, requests: Sequence[int]) -> None:
    """Start, and kill when the server has answered so many more requests; again and again."""
    for more in requests:
        goal = sum(world.served.turns.values()) + more
        pid = await asyncio.to_thread(nursery.start, role)
        async with asyncio.timeout(PATIENCE):
            while sum(world.served.turns.values()) < goal:
                await asyncio.sleep(0.005)
        assert await asyncio.to_thread(nursery.kill, pid)


async def finished(world: IdsWorld, nursery: Nursery, folder: Path, traffic_time: float) -> None:
    """Let it run until everything that was handed out by then is settled, then end it."""
    pid = await asyncio.to_thread(nursery.start, "sound")
    async with asyncio.timeout(PATIENCE):
        while wrongs(world.traffic, folder / "w", traffic_time):
            await asyncio.sleep(0.5)
    (folder / "end").touch()
    assert await asyncio.to_thread(nursery.wait, pid) == 0


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["adaptive"])
def test_every_id_is_stored_once_over_gaps_outages_throttling_and_kills(
    scaling: str, tmp_path: Path
) -> None:
    async def main() -> None:
        clock = SystemClock()
        world = await serve_ids(
            TROUBLE.seed,
            manifest=tmp_path / "manifest.json",
            clock=clock,
            traffic=TROUBLE,
            age=AGE,
            log=tmp_path / "server.log",
        )
        given = config(world.base_url, max_rps=MAX_RPS, scaling=scaling)
        (tmp_path / "config.json").write_text(json.dumps(given))
        with nursery_of("ids_roles", tmp_path) as nursery:
            await killed(world, nursery, "sound", KILLS)
            await finished(world, nursery, tmp_path, QUIET)
        await world.close()

    asyncio.run(main())
    stored = Counter(published(tmp_path / "w"))
    assert wrongs(TROUBLE, tmp_path / "w", QUIET) == {}
    assert all(TROUBLE.is_raid(number) for number in stored)
    assert sum(stored.values()) - len(stored) <= len(KILLS) * IN_FLIGHT, "twice only around a kill"
    assert busiest_second(tmp_path / "server.log") <= MAX_RPS


def test_the_check_sees_a_crawl_that_settles_before_it_publishes(tmp_path: Path) -> None:
    async def main() -> None:
        world = await serve_ids(
            1,
            manifest=tmp_path / "manifest.json",
            clock=SystemClock(),
            traffic=TROUBLE,
            age=4000.0,
        )
        (tmp_path / "config.json").write_text(json.dumps(config(world.base_url)))
        with nursery_of("ids_roles", tmp_path) as nursery:
            await killed(world, nursery, "settle_first", [40, 45, 50, 55, 60, 65])
        await world.close()

    asyncio.run(main())
    stored = set(published(tmp_path / "w"))
    done = [number for number, mark in marks(tmp_path / "w").items() if mark is LedgerMark.DONE]
    assert done
    assert [number for number in done if TROUBLE.is_raid(number) and number not in stored]
