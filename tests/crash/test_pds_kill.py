"""SIGKILL in the middle of scans: every record is there once, and little is asked twice."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

from tests.crash.nursery import Nursery, has_ended, nursery_of
from tests.support.long import times
from tests.support.pds.scan import COMMENT, EPRINT, LIKE, TAG, bench_for, pdses_on, write
from tests.support.pds.sim_model import SimPds
from tests.support.pds.sim_world import PdsWorld, serve_pdses

KILLS = times(8, 24)
MOST_BETWEEN = 40  # Requests from one start to its kill.


def crowd() -> list[SimPds]:
    pdses = pdses_on(4, 3300)
    for place, pds in enumerate(pdses):
        for number in range(70):
            repo = pds.repo(f"kill/{place}/{number}")
            write(repo, LIKE, 1)
            if number % 3 == 0:
                write(repo, EPRINT, 130 if number == 30 else 2)
                write(repo, COMMENT, 1)
            if number % 7 == 0:
                write(repo, TAG, 3)
    return pdses


def truth(pdses: list[SimPds], collection: str) -> list[str]:
    return sorted(
        f"at://{did}/{collection}/{rkey}"
        for pds in pdses
        for did, repo in pds.repos.items()
        for rkey in repo.records.get(collection, {})
    )


async def kill_after(world: PdsWorld, nursery: Nursery, requests: int) -> bool:
    """Killed by what it has done, so that fast and slow machines kill at the same places."""
    goal = _asked(world) + requests
    pid = await asyncio.to_thread(nursery.start, "scan")
    while _asked(world) < goal and not await asyncio.to_thread(has_ended, pid):
        await asyncio.sleep(0.002)
    return await asyncio.to_thread(nursery.kill, pid)


def _asked(world: PdsWorld) -> int:
    return sum(world.requests(pds) for pds in world.pdses)


def test_every_record_is_there_once_after_many_kills(tmp_path: Path) -> None:
    pdses = crowd()
    dice = random.Random(7)

    async def run() -> None:
        world = await serve_pdses(pdses)
        told = {"plc": world.plc, "pdses": [world.url(pds) for pds in pdses]}
        (tmp_path / "world.json").write_text(json.dumps(told))
        try:
            with nursery_of("pds_roles", tmp_path) as nursery:
                landed = 0
                for _ in range(KILLS):
                    landed += await kill_after(world, nursery, dice.randrange(1, MOST_BETWEEN))
                assert landed >= KILLS // 2
                pid = await asyncio.to_thread(nursery.start, "scan")
                assert await asyncio.to_thread(nursery.wait, pid) == 0
            async with bench_for(world, tmp_path / "registry.db") as made:
                for table, collection in {
                    "eprints": EPRINT,
                    "reviews": COMMENT,
                    "tags": TAG,
                }.items():
                    assert await made.uris(table) == truth(pdses, collection)
                    assert await made.uris(table, live=False) == truth(pdses, collection)
        finally:
            await world.close()

    asyncio.run(run())
    asked = sum((pds.asked for pds in pdses), Counter())
    # Pages are saved with their cursors: a kill repeats those of the repo that was under way.
    pages = sum(
        -(-len(records) // 100) + 1
        for pds in pdses
        for repo in pds.repos.values()
        for collection, records in repo.records.items()
        if collection != LIKE
    )
    assert asked["listRecords"] <= pages + 6 * KILLS
