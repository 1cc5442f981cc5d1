"""A sink that gathers results for a while, and lanes that belong to others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.worlds import DictSink, ListSource, numbered_pages
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason, Receipt
from trawlnet.engine.ports import Counts, Page
from trawlnet.engine.rules import Manners
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.memory import MemoryStore

GATHERS = 30.0  # Seconds.


class GatheringSink(DictSink):
    """Everything that comes within some seconds is durable at their end, together."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.most_waiting = 0
        self.end: asyncio.Task[None] | None = None

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        if not batch:
            return
        self.waiting += len(batch)
        self.most_waiting = max(self.most_waiting, self.waiting)
        if self.end is None or self.end.done():
            self.end = asyncio.create_task(asyncio.sleep(GATHERS))
        await self.end
        await super().write(batch)
        self.waiting -= len(batch)


async def crawled(
    pages: Sequence[Page], sink: DictSink, handler: Any, owns: Any = lambda lane: True
) -> tuple[MemoryStore, float]:
    clock, store = SimClock(), MemoryStore()
    gate = Gate(clock, Manners(rate=1000.0, concurrency=100))
    feed = Feed(ListSource(pages), store)
    parts = Parts(feed, store, handler, sink, gate, clock, owns=owns)
    limits = Limits(unsettled=500, follow=False, most_seconds=600.0)
    assert await crawl(parts, limits, Control(50)) in (Ending.DONE, Ending.LIMIT)
    return store, clock.now()


def test_results_that_gather_do_not_hold_up_the_rest() -> None:
    async def handler(task: Task) -> Outcome:
        step = task.payload["n"]
        if step < 20:  # A listing of twenty pages, each of which names the next.
            found = [Task(f"page{step + 1}", "lister", {"n": step + 1})]
            return Outcome(Reason.OK, found=found)
        return Outcome(Reason.OK, items=[task.key])

    async def main() -> None:
        sink = GatheringSink()
        first = Page([Task("page0", "lister", {"n": 0})], "1")
        store, seconds = await crawled([first], sink, handler)
        assert list(sink.rows) == ["page20"]
        assert seconds < GATHERS + 1.0, "twenty pages took no gathering each"
        assert (await store.counts()).open == 0

    run_sim(main())


def test_no_more_results_gather_than_allowed_and_none_is_lost() -> None:
    async def handler(task: Task) -> Outcome:
        return Outcome(Reason.OK, items=[task.key])

    async def main() -> None:
        sink = GatheringSink()
        store, _ = await crawled(numbered_pages(3000), sink, handler)
        assert len(sink.rows) == 3000 and set(sink.writes.values()) == {1}
        assert 250 < sink.most_waiting <= 500
        assert (await store.counts()).open == 0

    run_sim(main())


class UnevenSink(DictSink):
    """One result takes its time; what comes after it is durable at once."""

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        if any(task.key == "slow" for task, _ in batch):
            await asyncio.sleep(GATHERS)
        await super().write(batch)


class WatchingStore(MemoryStore):
    """Each settlement must find its results in the sink."""

    def __init__(self, sink: DictSink) -> None:
        super().__init__()
        self.sink = sink
        self.early: list[str] = []

    async def settle(self, receipts: Sequence[Receipt]) -> None:
        keys = [receipt.task.key for receipt in receipts]
        self.early += [key for key in keys if key not in self.sink.rows]
        await super().settle(receipts)


def test_a_quick_write_does_not_settle_a_slow_one_beside_it() -> None:
    async def handler(task: Task) -> Outcome:
        await asyncio.sleep(task.payload["n"])
        return Outcome(Reason.OK, items=[task.key])

    async def main() -> None:
        clock, sink = SimClock(), UnevenSink()
        store = WatchingStore(sink)
        tasks = [Task("slow", "host", {"n": 0}), Task("quick", "host", {"n": 1})]
        gate = Gate(clock, Manners(rate=1000.0))
        parts = Parts(
            Feed(ListSource([Page(tasks, "1")]), store), store, handler, sink, gate, clock
        )
        assert await crawl(parts, Limits(unsettled=500), Control(5)) is Ending.DONE
        assert set(sink.rows) == {"slow", "quick"} and store.early == []

    run_sim(main())


def test_lanes_of_others_are_left_to_them() -> None:
    asked: list[str] = []

    async def handler(task: Task) -> Outcome:
        asked.append(task.lane)
        return Outcome(Reason.OK, found=[Task(f"{task.key}+", "theirs")], items=[task.key])

    async def main() -> None:
        page = Page([Task("a", "ours"), Task("b", "ours")], "1")
        store, _ = await crawled([page], DictSink(), handler, lambda lane: lane == "ours")
        assert asked == ["ours", "ours"]
        assert (await store.counts()).open == 2

    run_sim(main())


class SharedStore(MemoryStore):
    """Others have put in more than is worked off here, and work it off in their own time."""

    async def counts(self) -> Counts:
        theirs = 100_000 if SimClock().now() < 1000.0 else 0
        ours = await super().counts()
        return replace(ours, open=ours.open + theirs)


def test_a_source_that_waited_for_others_goes_on_when_they_are_done() -> None:
    async def handler(task: Task) -> Outcome:
        return Outcome(Reason.OK, items=[task.key])

    async def main() -> None:
        clock, sink = SimClock(), DictSink()
        gate = Gate(clock, Manners(rate=1000.0))
        store = SharedStore()
        feed = Feed(ListSource(numbered_pages(100)), store)
        parts = Parts(feed, store, handler, sink, gate, clock)
        assert await crawl(parts, Limits(high_water=1000), Control(5)) is Ending.DONE
        assert len(sink.rows) == 100 and 1000.0 <= clock.now() < 1100.0

    run_sim(main())


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def settle(self, receipts: Sequence[Receipt]) -> None:
        self.sizes.append(len(receipts))
        await asyncio.sleep(0)  # As a server would, it lets others go on.
        await super().settle(receipts)


def test_what_gathered_is_settled_together_however_it_came() -> None:
    async def handler(task: Task) -> Outcome:
        await asyncio.sleep(task.payload["n"] * 0.01)
        return Outcome(Reason.OK, items=[task.key])

    async def main() -> None:
        clock, store = SimClock(), CountingStore()
        gate = Gate(clock, Manners(rate=1000.0, concurrency=400))
        page = Page([Task(f"k{n}", "host", {"n": n}) for n in range(400)], "1")
        parts = Parts(Feed(ListSource([page]), store), store, handler, GatheringSink(), gate, clock)
        assert await crawl(parts, Limits(unsettled=500), Control(400)) is Ending.DONE
        assert sum(store.sizes) == 400 and len(store.sizes) <= 3, store.sizes

    run_sim(main())
