"""The memory budget: bodies never wait, work waits in order, and nobody for ever."""

from __future__ import annotations

import asyncio
import random

from trawlnet.crawlers.repos.visiting.memory import FIRST_BYTES, MemoryBudget, Ticket
from trawlnet.sim.virtual import run_sim


def begun(ticket: Ticket, size: int) -> asyncio.Task[None]:
    return asyncio.create_task(ticket.begin(size))


def test_a_body_is_told_to_leave_when_half_is_taken_by_bodies() -> None:
    budget = MemoryBudget(4 * FIRST_BYTES)
    one, other = budget.ticket(), budget.ticket()
    assert one.hold(FIRST_BYTES * 2)
    assert other.hold(FIRST_BYTES)  # The first bytes of each may always come.
    assert not other.hold(1)
    other.keep(0)
    assert not one.hold(1)
    one.close()
    assert budget.used == 0


def test_work_leaves_no_room_for_bodies_either() -> None:
    async def main() -> None:
        budget = MemoryBudget(4 * FIRST_BYTES)
        await budget.ticket().begin(3 * FIRST_BYTES)
        body = budget.ticket()
        assert body.hold(FIRST_BYTES)
        assert not body.hold(1)

    run_sim(main())


def test_work_waits_in_the_order_in_which_it_came() -> None:
    async def main() -> None:
        budget = MemoryBudget(100)
        first, large, small = budget.ticket(), budget.ticket(), budget.ticket()
        await first.begin(60)
        waiting, behind = begun(large, 80), begun(small, 10)
        await asyncio.sleep(1)
        assert not waiting.done() and not behind.done() and budget.used == 60
        first.settle_at(20)
        await asyncio.wait_for(waiting, 1)
        assert not behind.done()
        first.close()
        await asyncio.wait_for(behind, 1)
        for ticket in (large, small, small):
            ticket.close()
        assert budget.used == 0

    run_sim(main())


def test_what_takes_more_than_the_limit_gets_through_alone() -> None:
    async def main() -> None:
        budget = MemoryBudget(100)
        block, huge = budget.ticket(), budget.ticket()
        block.settle_at(1)
        waiting = begun(huge, 1000)
        await asyncio.sleep(1)
        assert not waiting.done()  # The block will be written, and so waiting helps.
        block.close()
        await asyncio.wait_for(waiting, 1)
        assert budget.used == 1000

    run_sim(main())


def test_bodies_alone_never_keep_work_from_beginning() -> None:
    async def main() -> None:
        budget = MemoryBudget(100)
        for _ in range(50):
            budget.ticket().hold(FIRST_BYTES)
        await asyncio.wait_for(budget.ticket().begin(10), 1)

    run_sim(main())


def test_who_needs_more_than_it_was_given_lets_go_of_that_first() -> None:
    async def main() -> None:
        budget = MemoryBudget(100)
        ticket = budget.ticket()
        await ticket.begin(90)
        await asyncio.wait_for(ticket.begin(300), 1)
        assert budget.work == ticket.work == 300

    run_sim(main())


def test_who_gives_up_waiting_takes_nothing_and_holds_nobody_up() -> None:
    async def main() -> None:
        budget = MemoryBudget(10)
        old, new, last = budget.ticket(), budget.ticket(), budget.ticket()
        await old.begin(6)
        waiting, behind = begun(new, 5), begun(last, 4)
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.wait_for(behind, 1)
        assert budget.used == 10
        for ticket in (old, new, last):
            ticket.close()
        assert budget.used == 0

    run_sim(main())


def test_who_is_cancelled_in_the_instant_of_the_grant_gives_it_back() -> None:
    async def main() -> None:
        budget = MemoryBudget(10)
        old, new = budget.ticket(), budget.ticket()
        await old.begin(10)
        waiting = begun(new, 10)
        await asyncio.sleep(1)
        old.close()  # Granted now; it will hear of it in the next turn of the loop.
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled() and budget.used == 0

    run_sim(main())


def test_a_crowd_ends_within_the_limit_and_the_first_bytes_of_each() -> None:
    async def main() -> None:
        limit, crowd, piece = 40 * FIRST_BYTES, 100, FIRST_BYTES // 2
        budget, most, spilled = MemoryBudget(limit), 0, 0
        dice = random.Random(1)

        async def fetch() -> None:
            nonlocal most, spilled
            ticket = budget.ticket()
            size = dice.randrange(1, 30)
            for _ in range(size):
                await asyncio.sleep(dice.random())
                if not ticket.hold(piece):
                    most = max(most, budget.used)
                    ticket.keep(FIRST_BYTES)
                    spilled += 1
            await ticket.begin(2 * size * piece)
            most = max(most, budget.used)
            await asyncio.sleep(dice.random())
            ticket.settle_at(size * piece // 4)
            await asyncio.sleep(dice.random())
            ticket.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(crowd):
                group.create_task(fetch())
        assert budget.used == 0
        assert spilled and limit // 2 < most <= limit + crowd * FIRST_BYTES

    run_sim(main())
