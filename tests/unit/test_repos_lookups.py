"""Whoever cannot ask a directory now comes back when it is their turn, and not before."""

from __future__ import annotations

import asyncio

from trawlnet.crawlers.repos.accounts.locator import LookupSlots
from trawlnet.sim.virtual import SimClock, run_sim


async def turned_away(slots: LookupSlots, clock: SimClock, seconds: float) -> int:
    """How often one visit was sent away before its lookup of so many seconds."""
    times = 0
    while wait := slots.wait():
        times += 1
        await clock.sleep(wait)
    async with slots.taken():
        await clock.sleep(seconds)
    return times


def test_a_crowd_before_a_slow_directory_is_spread_and_not_sent_away_again_and_again() -> None:
    async def main() -> tuple[list[int], float]:
        clock = SimClock()
        slots = LookupSlots(2, clock)
        times = await asyncio.gather(*(turned_away(slots, clock, 30.0) for _ in range(200)))
        return times, clock.now()

    times, ended = run_sim(main())
    assert max(times) <= 12 and sum(times) / len(times) < 5
    assert ended < 2 * 200 * 30.0 / 2  # The slots are not idle, either.


def test_no_more_ask_at_once_than_there_are_slots() -> None:
    async def main() -> None:
        slots = LookupSlots(2, SimClock())
        async with slots.taken():
            assert slots.wait() == 0.0
            async with slots.taken():
                first, second = slots.wait(), slots.wait()
                assert 0.0 < first < second
            assert slots.wait() == 0.0

    run_sim(main())
