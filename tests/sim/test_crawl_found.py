"""What worlds drawn at random and mutants have found in the engine, each as a case of its own."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from tests.support.worlds import Setup
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Limits, Parts, crawl
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import run_sim
from trawlnet.stores.memory import MemoryStore


class DistantStore(MemoryStore):
    """Its answers take a while to arrive, and what it was asked for has happened before."""

    async def settle(self, receipts):
        await super().settle(receipts)
        await self.clock.sleep(1.0)

    async def lanes(self, after, limit):
        found = await super().lanes(after, limit)
        await self.clock.sleep(1.0)
        return found


def test_nothing_begins_after_the_time_is_up_however_long_the_store_takes():
    async def main():
        begun = []

        async def handler(task):
            begun.append(crawling.clock.now())
            return Outcome(Reason.OK)

        store = DistantStore()
        await store.feed(Page([Task(f"k{n}", f"l{n}") for n in range(9)], "1"))
        crawling = Setup([], handler=handler, store=store, most_seconds=0.5)
        store.clock = crawling.clock
        assert await crawling.run() is Ending.LIMIT
        assert not begun, "the listing at the start took a second"

    run_sim(main())


def test_lanes_that_did_not_fit_are_read_while_a_task_hangs():
    async def main():
        ended = {}

        async def handler(task):
            await crawling.clock.sleep(1000.0 if task.key == "k0" else 0.1)
            ended[task.key] = crawling.clock.now()
            return Outcome(Reason.OK)

        tasks = [Task(f"k{n}", f"l{n}") for n in range(20)]
        crawling = Setup([Page(tasks, "1")], handler=handler, workers=3, lanes=4)
        assert await crawling.run() is Ending.DONE
        assert sorted(ended.values())[-2] < 10.0 < ended["k0"]

    run_sim(main())


def test_what_a_dead_process_had_leased_is_done_while_others_still_have_work():
    async def main():
        begun = {}

        async def handler(task):
            begun[task.key] = crawling.clock.now()
            return Outcome(Reason.OK)

        store = MemoryStore()
        await store.feed(Page([Task("dead/1", "dead"), Task("dead/2", "dead")], "1"))
        await store.lease({"dead": 1}, 0.0, 60.0)
        tasks = [Task(f"k{n}", "busy") for n in range(500)]
        crawling = Setup(
            [Page(tasks, "2")], handler=handler, store=store, lease=60.0, manners=Manners(rate=1.0)
        )

        async def visit(task):
            async with crawling.gate.turn(task.lane):
                return await handler(task)

        crawling.handler = visit
        assert await crawling.run() is Ending.DONE
        assert 60.0 <= begun["dead/1"] < 70.0 < 400.0 < max(begun.values())

    run_sim(main())


def test_a_key_leased_again_before_its_settlement_was_confirmed_keeps_its_lease():
    async def main():
        at_once = []
        inside = 0

        async def handler(task):
            nonlocal inside
            inside += 1
            at_once.append(inside)
            # The second try takes longer than a lease.
            await crawling.clock.sleep(500.0 if task.attempt else 0.1)
            inside -= 1
            return Outcome(Reason.OK if task.attempt else Reason.NO_SPACE)

        store = DistantStore()
        crawling = Setup(
            [Page([Task("k", "l")], "1")],
            handler=handler,
            store=store,
            lease=30.0,
            retry=RetryPolicy(base=0.01, jitter=0.0),
            manners=Manners(rate=math.inf),
        )
        store.clock = crawling.clock

        async def nudge():
            # Another process puts work back, so that the lane is looked at just then.
            while crawling.clock.now() < 5.0:
                await crawling.clock.sleep(0.05)
                crawling.control.wake("l")

        nudging = asyncio.create_task(nudge())
        assert await crawling.run() is Ending.DONE
        await nudging
        assert at_once == [1, 1], "it was asked for twice at once"

    run_sim(main())


def test_reading_the_lanes_again_does_not_shorten_a_wait_that_is_being_written_down():
    async def main():
        left = []

        async def handler(task):
            async with crawling.gate.turn(task.lane):
                left.append(crawling.clock.now())
                wait = 10.0 if len(left) == 1 else 300.0 if len(left) == 2 else None
            return Outcome(Reason.RATE_LIMITED if wait else Reason.OK, wait=wait)

        class SlowHold(MemoryStore):
            async def hold(self, lane, until):
                if until > 100.0:
                    # The store still has the first wait while the second is on its way.
                    await super().hold(lane, crawling.clock.now() + 5.0)
                    crawling.control.look_again()
                    await crawling.clock.sleep(20.0)
                await super().hold(lane, until)

        tasks = [Task(f"k{n}", "l") for n in range(4)]
        crawling = Setup(
            [Page(tasks, "1")], handler=handler, store=SlowHold(), manners=Manners(concurrency=1)
        )
        assert await crawling.run() is Ending.DONE
        assert min(left[2:]) >= left[1] + 300.0

    run_sim(main())


def test_no_task_is_begun_beyond_the_limit_however_many_may_run_at_once():
    async def main():
        async def handler(task):
            await crawling.clock.sleep(1.0)
            return Outcome(Reason.OK)

        tasks = [Task(f"k{n}", f"l{n}") for n in range(50)]
        crawling = Setup([Page(tasks, "1")], handler=handler, workers=100, most_tasks=7)
        assert await crawling.run() is Ending.LIMIT
        assert sum(crawling.control.figures.tally.values()) == 7

    run_sim(main())


def test_a_long_task_keeps_its_lease_while_others_of_its_lane_come_and_go():
    async def main():
        begun = []

        async def handler(task):
            begun.append(task.key)
            await crawling.clock.sleep(500.0 if task.key == "slow" else 1.0)
            return Outcome(Reason.OK)

        tasks = [Task(name, "l") for name in ("slow", *(f"k{n}" for n in range(400)))]
        crawling = Setup([Page(tasks, "1")], handler=handler, lease=60.0)
        assert await crawling.run() is Ending.DONE
        assert len(begun) == len(set(begun)) == 401

    run_sim(main())


def test_a_task_whose_lane_is_parked_comes_back_when_the_lane_is_free():
    async def main():
        begun = []

        async def handler(task):
            begun.append(crawling.clock.now())
            if len(begun) == 1:
                raise LaneParked("l", crawling.clock.now() + 300.0)
            return Outcome(Reason.OK)

        crawling = Setup([Page([Task("k", "l")], "1")], handler=handler)
        assert await crawling.run() is Ending.DONE
        assert len(begun) == 2 and begun[1] >= 300.0
        assert (await crawling.store.counts()).attempts == {Reason.PARKED: 1, Reason.OK: 1}

    run_sim(main())


@pytest.mark.parametrize("answers", [True, False])
def test_no_task_is_given_up_while_a_server_besides_its_own_answers_others(answers):
    """Every task needs the directory, which has so many of them wait, or answers nobody."""

    async def main():
        asked = []

        async def handler(task):
            async with crawling.gate.turn(task.lane):
                await crawling.clock.sleep(0.01)
            async with crawling.gate.turn("directory"):
                await crawling.clock.sleep(0.01)
            asked.append(task.key)
            if not answers or len(asked) % 5 == 0:
                return Outcome(Reason.RATE_LIMITED, wait=60.0, lane="directory")
            crawling.gate.observe("directory", Outcome(Reason.OK))
            return Outcome(Reason.OK)

        tasks = [Task(f"k{n}", f"lane{n % 7}") for n in range(200)]
        patience = RetryPolicy(patience=4)
        crawling = Setup(
            [Page(tasks, "1")],
            handler=handler,
            workers=20,
            manners=Manners(rate=math.inf),
            retry=patience,
        )
        assert await crawling.run() is Ending.DONE
        settled = (await crawling.store.counts()).settled
        if answers:
            assert settled == {Reason.OK: 200}
        else:
            assert sum(settled.values()) == 200 and Reason.OK not in settled
            assert len(asked) <= 2 * (patience.patience + 1)

    run_sim(main())


def test_a_crawl_without_a_source_works_off_its_store_and_one_without_a_sink_drops_nothing():
    async def main():
        store = MemoryStore()
        await store.feed(Page([Task(f"k{n}", "l") for n in range(3)], "1"))
        crawling = Setup([], store=store, manners=Manners(rate=math.inf))
        gate, clock, control = crawling.gate, crawling.clock, crawling.control

        async def nothing(task):
            return Outcome(Reason.OK)

        parts = Parts(None, store, nothing, None, gate, clock)
        assert await crawl(parts, Limits(), control) is Ending.DONE
        assert (await store.counts()).settled == {Reason.OK: 3}

        async def something(task):
            return Outcome(Reason.OK, items=["a result"])

        await store.feed(Page([Task("k3", "l")], "2"))
        with pytest.raises(TypeError, match="k3: items for a crawl that has no sink"):
            await crawl(replace(parts, handler=something), Limits(), Control(1))
        assert (await store.counts()).open == 1

    run_sim(main())


def test_a_lane_is_woken_even_before_the_crawl_begins():
    async def main():
        control = Control(1)
        control.wake("l")
        control.wake("l")
        assert control.changed.is_set()
        assert list(control.woken()) == ["l"]
        assert list(control.woken()) == [], "each is told once"
        assert (control.figures.lanes.with_work(), control.figures.lanes.longest()) == (0, 0.0)

    run_sim(main())


def test_a_new_run_waits_for_a_host_without_tasks_as_long_as_that_host_said():
    async def main():
        asked = []

        async def handler(task):
            async with crawling.gate.turn("target"):
                asked.append(crawling.clock.now() - begun)
                if len(asked) == 1:
                    return Outcome(Reason.RATE_LIMITED, lane="target", wait=120.0)
                return Outcome(Reason.OK)

        manners = Manners(longest_park=3600.0)
        pages = [Page([Task("redirected", "source")], "1"), Page([Task("later", "source")], "2")]
        store = MemoryStore()
        crawling = Setup(pages[:1], handler=handler, store=store, manners=manners, most_tasks=1)
        begun = crawling.clock.now()
        await crawling.run()
        clock = crawling.clock
        crawling = Setup(pages, handler=handler, store=store, manners=manners)
        crawling.clock = clock
        crawling.gate = Gate(clock, manners)
        await crawling.run()
        assert len(asked) == 3 and min(asked[1:]) >= 120.0, asked

    run_sim(main())


def test_a_blocked_host_that_has_no_tasks_gets_another_chance_with_its_next_ones():
    async def main():
        async def handler(task):
            async with crawling.gate.turn(task.lane):
                return Outcome(Reason.UNAVAILABLE if task.key == "last" else Reason.OK)

        store = MemoryStore()
        await store.hold("host", math.inf)  # As the run before left it, with nothing to do there.
        retry = RetryPolicy(attempts=3, base=1.0)
        crawling = Setup(
            [Page([Task("last", "host")], "1")], handler=handler, store=store, retry=retry
        )
        assert await crawling.run() is Ending.DONE
        counts = await store.counts()
        assert counts.open == 0 and counts.settled == {Reason.UNAVAILABLE: 1}

    run_sim(main())
