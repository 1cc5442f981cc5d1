"""When the source waits: many open tasks, unless few lanes have them or they are blocked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

from tests.support.worlds import DictSink
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.memory import MemoryStore

PAGE = 100


class Pages:
    """Numbered tasks on so many lanes; notes the most that were open when it was asked."""

    def __init__(self, store: MemoryStore, pages: int, lanes: int) -> None:
        self._store = store
        self._pages = pages
        self._lanes = lanes
        self.most_open = 0

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        for number in range(self._pages):
            self.most_open = max(self.most_open, (await self._store.counts()).open)
            keys = range(number * PAGE, (number + 1) * PAGE)
            yield Page([Task(f"k{n}", f"lane{n % self._lanes}") for n in keys], str(number))


async def good(task: Task) -> Outcome:
    await asyncio.sleep(0.01)
    return Outcome(Reason.OK)


async def run(lanes: int) -> int:
    store, clock = MemoryStore(), SimClock()
    source = Pages(store, 40, lanes)
    gate = Gate(clock, Manners(rate=math.inf))
    limits = Limits(high_water=3 * PAGE, few_lanes=5, highest_water=12 * PAGE)
    parts = Parts(Feed(source, store), store, good, DictSink(), gate, clock)
    assert await crawl(parts, limits, Control(4)) is Ending.DONE
    return source.most_open


def test_the_source_waits_at_the_high_water_mark() -> None:
    assert run_sim(run(lanes=20)) <= 3 * PAGE


def test_with_few_lanes_it_goes_on_to_the_highest_mark_and_no_further() -> None:
    assert 3 * PAGE < run_sim(run(lanes=2)) <= 12 * PAGE


def test_what_a_blocked_lane_holds_does_not_keep_the_source_waiting() -> None:
    async def main() -> None:
        store, clock = MemoryStore(), SimClock()
        gate = Gate(clock, Manners(rate=math.inf, block_at=2))

        async def dead(task: Task) -> Outcome:
            if task.lane == "lane0":
                return Outcome(Reason.CONNECTION_ERROR)
            return await good(task)

        source = Pages(store, 40, lanes=2)
        limits = Limits(high_water=PAGE, retry=RetryPolicy(attempts=1))
        parts = Parts(Feed(source, store), store, dead, DictSink(), gate, clock)
        assert await crawl(parts, limits, Control(4)) is Ending.DONE
        counts = await store.counts()
        assert counts.settled[Reason.OK] == 20 * PAGE
        assert counts.open == counts.blocked > 10 * PAGE

    run_sim(main())
