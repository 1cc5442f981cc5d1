"""The memory budget: bounded, fair to the oldest, and never stuck."""

from __future__ import annotations

import asyncio
import random

from trawlnet.crawlers.repos.budget import MemoryBudget
from trawlnet.sim.virtual import run_sim


def test_whoever_comes_when_all_is_taken_waits() -> None:
    async def main() -> None:
        budget = MemoryBudget(100)
        old, new = budget.ticket(), budget.ticket()
        await old.grow(80)
        waiting = asyncio.create_task(new.grow(30))
        await asyncio.sleep(1)
        assert not waiting.done() and budget.used == 80
        old.settle_at(60)
        await asyncio.wait_for(waiting, 1)
        assert budget.used == 90
        old.close()
        old.close()
        new.close()
        assert budget.used == 0

    run_sim(main())


def test_the_oldest_may_always_go_on() -> None:
    async def main() -> None:
        budget = MemoryBudget(100)
        old, new = budget.ticket(), budget.ticket()
        await new.grow(100)
        await asyncio.wait_for(old.grow(50), 1)
        stuck = asyncio.create_task(new.grow(1))
        await asyncio.sleep(1)
        assert not stuck.done()
        old.close()
        await asyncio.wait_for(stuck, 1)  # Now it is the oldest.

    run_sim(main())


def test_one_that_waits_for_the_disk_is_not_the_oldest_any_more() -> None:
    async def main() -> None:
        budget = MemoryBudget(100)
        written, reading = budget.ticket(), budget.ticket()
        await written.grow(100)
        written.settle_at(100)
        await asyncio.wait_for(reading.grow(10), 1)

    run_sim(main())


def test_a_crowd_ends_within_the_limit_and_one_repository() -> None:
    async def main() -> None:
        budget, most = MemoryBudget(1000), 0
        dice = random.Random(1)

        async def fetch() -> None:
            nonlocal most
            ticket = budget.ticket()
            for _ in range(dice.randrange(1, 40)):
                await asyncio.sleep(dice.random())
                await ticket.grow(10)
                most = max(most, budget.used)
            ticket.settle_at(ticket.held // 4)
            await asyncio.sleep(dice.random())
            ticket.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(200):
                group.create_task(fetch())
        assert budget.used == 0
        assert 1000 <= most <= 1000 + 400

    run_sim(main())


def test_who_gives_up_waiting_takes_nothing() -> None:
    async def main() -> None:
        budget = MemoryBudget(10)
        old, new = budget.ticket(), budget.ticket()
        await old.grow(10)
        waiting = asyncio.create_task(new.grow(5))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        new.close()
        old.close()
        assert budget.used == 0

    run_sim(main())
