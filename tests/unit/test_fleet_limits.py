"""Limits of a whole crawl, as the command that watches over it counts them."""

from __future__ import annotations

import asyncio

import pytest

from trawlnet.engine.ports import Counts
from trawlnet.fleet.limits import RunLimits
from trawlnet.fleet.supervise import Seen
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.redis.fleet.shards import FleetPlan


def seen(**started: int) -> Seen:
    rows = {n: {"token": token, "started": n_} for n, (token, n_) in enumerate(started.items())}
    return Seen(FleetPlan(), rows, Counts())


def test_tasks_are_counted_over_shards_and_over_terms_that_have_ended() -> None:
    async def main() -> None:
        limits = RunLimits(SimClock(), None, 10)
        assert not await limits.reached(seen(a=4, b=5))
        assert not await limits.reached(seen(a=4, b=5)), "the same ones count once"
        assert not await limits.reached(seen(c=0)), "both shards have begun anew"
        assert await limits.reached(seen(c=1))

    run_sim(main())


@pytest.mark.parametrize(("most", "reached"), [(None, False), (60.0, True), (60.5, False)])
def test_time_is_that_of_the_command(most: float | None, reached: bool) -> None:
    async def main() -> None:
        await asyncio.sleep(1000)
        limits = RunLimits(SimClock(), most)
        assert not await limits.reached(seen())
        await asyncio.sleep(60)
        assert await limits.reached(seen()) is reached

    run_sim(main())
