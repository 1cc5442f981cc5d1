"""How fast each PDS is asked, as its own log has it: by the accounts that it really has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.support.repos.run import run_relay
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto

SLOW, QUICK = 40.0, 1000.0  # Requests per second.
SLACK = 3  # Requests that the clock of a busy machine may put into the wrong window.


def test_accounts_that_are_listed_and_then_looked_up_count_once(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def main() -> AtprotoWorld:
        world = await serve_atproto(3, accounts=150, hosts=3, habits=(), log=log)
        try:
            rates = {"small_pds_rps": SLOW, "default_pds_rps": QUICK, "large_pds_rps": QUICK}
            await run_relay(world, tmp_path, **rates)
        finally:
            await world.close()
        return world

    world = asyncio.run(main())
    sizes = {
        host.address: len(members)
        for host, members in zip(world.plan.hosts, world.population.members, strict=True)
    }
    assert any(50 <= size < 100 for size in sizes.values()), "twice as many would be another class"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for address, size in sizes.items():
        starts = sorted(row["time"] for row in rows if row["host"] == address)
        if size < 100:
            assert busiest_second(starts) <= SLOW + SLACK, (size, len(starts))


def busiest_second(starts: list[float]) -> int:
    return max(sum(begin <= start < begin + 1.0 for start in starts) for begin in starts)
