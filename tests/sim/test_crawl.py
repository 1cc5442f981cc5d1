"""The crawl in virtual time: hours of back-off in milliseconds."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter

import pytest

from tests.support.worlds import DictSink, ListSource, Setup, World, numbered_pages
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.schedule import Schedule
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.memory import MemoryStore


def test_everything_is_settled_and_every_lane_is_treated_politely():
    async def main():
        crawling = Setup(numbered_pages(500))
        assert await crawling.run() is Ending.DONE
        counts = await crawling.store.counts()
        assert counts.open == 0 and counts.known == 500
        assert sum(counts.settled.values()) == 500
        assert set(crawling.sink.rows) and counts.settled[Reason.OK] == len(crawling.sink.rows)
        assert max(crawling.sink.writes.values()) == 1
        for starts in crawling.world.starts.values():
            assert min(b - a for a, b in itertools.pairwise(starts)) >= 0.2 - 1e-5
        assert max(crawling.world.most_inside.values()) <= 4

    run_sim(main())


def test_every_attempt_ends_in_exactly_one_reason():
    async def main():
        crawling = Setup(numbered_pages(300))
        await crawling.run()
        counts = await crawling.store.counts()
        assert dict(crawling.control.figures.tally) == dict(counts.attempts)
        tried = {r: n for r, n in counts.attempts.items() if r is not Reason.PARKED}
        assert tried == dict(crawling.world.answers)

    run_sim(main())


def test_a_run_with_nothing_to_do_ends_at_once():
    async def main():
        crawling = Setup([])
        assert await crawling.run() is Ending.DONE
        assert crawling.clock.now() < 1.0

    run_sim(main())


def test_running_again_does_nothing_again():
    async def main():
        store = MemoryStore()
        await Setup(numbered_pages(100), store=store).run()
        again = Setup(numbered_pages(100), store=store)
        await again.run()
        assert not again.world.starts and again.source.given == 0

    run_sim(main())


class CountingStore(MemoryStore):
    leases = 0

    async def lease(self, wants, now, ttl):
        self.leases += 1
        return await super().lease(wants, now, ttl)


def test_lanes_that_are_due_at_nearly_the_same_time_are_leased_for_together():
    async def main(gather):
        store = CountingStore()
        pages = [
            Page([Task(f"{lane}/{n}", f"l{lane}") for n in range(20)], f"{lane}")
            for lane in range(30)
        ]
        left = []

        async def visit(task):
            async with crawling.gate.turn(task.lane) as turn:
                await turn.leave()
                left.append((task.lane, round(crawling.clock.now(), 4)))
                await crawling.clock.sleep(0.001 * (int(task.lane[1:]) + 1))
            return Outcome(Reason.OK)

        crawling = Setup(pages, handler=visit, store=store, workers=60, gather=gather)
        for lane in range(30):
            # Each lane at a time of its own.
            crawling.gate.park(f"l{lane}", 0.0037 * lane)
        assert await crawling.run() is Ending.DONE
        return store.leases, sorted(left)

    alone, left_alone = run_sim(main(0.0))
    together, left_together = run_sim(main(0.02))
    assert left_together == left_alone, "nothing left earlier or later for it"
    assert together * 3 < alone


def test_a_task_that_ends_wakes_the_dispatcher_only_if_its_place_is_waited_for(monkeypatch):
    looks = 0
    take = Schedule.take

    def counted(schedule, *args):
        nonlocal looks
        looks += 1
        return take(schedule, *args)

    monkeypatch.setattr(Schedule, "take", counted)

    async def main(workers):
        nonlocal looks
        looks = 0

        async def visit(task):
            await crawling.clock.sleep(1.0 + task.payload)
            return Outcome(Reason.OK)

        tasks = [Task(f"{n}", f"l{n}", n / 100) for n in range(50)]
        crawling = Setup([Page(tasks, "1")], handler=visit, workers=workers, linger=5.0)
        assert await crawling.run() is Ending.DONE
        return looks

    assert run_sim(main(workers=100)) < 30
    assert run_sim(main(workers=5)) >= 45, "a free worker is used at once"


def test_the_dispatcher_sleeps_until_something_is_due():
    async def main():
        async def once(task):
            if task.attempt == 0:
                return Outcome(Reason.UNAVAILABLE, wait=3000.0)
            return Outcome(Reason.OK, items=["x"])

        crawling = Setup(
            [Page([Task("k", "l")], "1")], handler=once, store=CountingStore(), lease=1e6
        )
        await crawling.run()
        assert crawling.clock.now() >= 3000.0 - 1.0
        assert crawling.store.leases < 10

    run_sim(main())


def healthy_finish(hanging: bool) -> float:
    """When 200 healthy lanes are done, with or without one that hangs."""

    async def main() -> float:
        tasks = [Task(f"h{n}", f"healthy{n % 200}") for n in range(4000)]
        if hanging:
            tasks = [Task(f"x{n}", "hanging") for n in range(1000)] + tasks
        pages = [Page(tasks[at : at + 500], f"{at:06}") for at in range(0, len(tasks), 500)]
        finished: list[float] = []

        async def handler(task: Task) -> Outcome:
            async with crawling.gate.turn(task.lane):
                if task.lane == "hanging":
                    await crawling.clock.sleep(300.0)
                    return Outcome(Reason.TIMEOUT)
                await crawling.clock.sleep(0.1)
            finished.append(crawling.clock.now())
            return Outcome(Reason.OK, items=[1])

        crawling = Setup(pages, handler=handler, workers=50, manners=Manners(rate=2.0))
        await crawling.run()
        assert len(finished) == 4000
        return max(finished)

    return run_sim(main())


def test_one_lane_of_hanging_requests_does_not_slow_two_hundred_healthy_ones():
    alone, beside = healthy_finish(hanging=False), healthy_finish(hanging=True)
    assert beside <= alone * 1.05


@pytest.mark.parametrize("workers", [2, 4, 16])
def test_a_slow_lane_with_room_for_the_whole_crew_leaves_some_to_the_others(workers):
    """A directory that answers after a minute, beside hosts that answer at once."""
    slow = [Task(f"slow:{n}", "slow", {}) for n in range(100)]
    quick = [Task(f"quick:{n}", f"host{n % 5}", {}) for n in range(200)]
    ended: dict[str, float] = {}

    async def main():
        async def handler(task):
            async with crawling.gate.turn(task.lane):
                await crawling.clock.sleep(60.0 if task.lane == "slow" else 0.1)
            ended[task.key] = crawling.clock.now()
            return Outcome(Reason.OK)

        pages = [Page(slow, "1"), Page(quick, "2")]
        manners = Manners(rate=20.0, concurrency=100)
        crawling = Setup(pages, handler=handler, workers=workers, manners=manners)
        assert await crawling.run() is Ending.DONE
        # The slow lane may have had all workers before anybody else had work, and then not again.
        assert max(ended[task.key] for task in quick) < 60.0 + 30.0
        # And it has all that the others do not use.
        alone = math.ceil(len(slow) / workers) * 60.0
        assert max(ended.values()) <= alone + 120.0

    run_sim(main())


def test_a_task_that_leads_to_a_blocked_lane_does_not_wait_for_it():
    """An account that moved to a dead host: on record as blocked; its own host is not blamed."""

    async def main():
        async def handler(task):
            if task.key == "dead":
                return Outcome(Reason.CONNECTION_ERROR)
            async with crawling.gate.turn("dead"):
                return Outcome(Reason.OK)

        pages = [Page([Task("dead", "dead", {})], "1"), Page([Task("moved", "well", {})], "2")]
        crawling = Setup(pages, handler=handler, manners=Manners(block_at=1))
        assert await asyncio.wait_for(crawling.run(), 60.0) is Ending.DONE
        failures = {one.key: one.reason async for one in crawling.store.failures()}
        assert failures["moved"] is Reason.BLOCKED
        assert not crawling.gate.blocked("well")

    run_sim(main())


def test_a_parked_lane_holds_no_worker_and_waits_as_long_as_it_was_told():
    async def main():
        throttled: list[float] = []

        async def handler(task: Task) -> Outcome:
            async with crawling.gate.turn(task.lane):
                if task.lane == "busy" and not throttled:
                    throttled.append(crawling.clock.now())
                    return Outcome(Reason.RATE_LIMITED, wait=600.0)
                first.setdefault(task.lane, crawling.clock.now() if throttled else -1.0)
                if task.lane == "busy" and throttled:
                    after.append(crawling.clock.now())
            return Outcome(Reason.OK, items=[1])

        first: dict[str, float] = {}
        after: list[float] = []
        tasks = [Task(f"b{n}", "busy") for n in range(20)]
        tasks += [Task(f"f{n}", "free") for n in range(200)]
        crawling = Setup([Page(tasks, "1")], handler=handler, workers=2)
        await crawling.run()
        assert min(after) >= throttled[0] + 600.0
        counts = await crawling.store.counts()
        assert counts.settled[Reason.OK] == 220

    run_sim(main())


def test_a_dead_lane_is_blocked_its_tasks_stay_visible_and_the_next_run_tries_again():
    async def main():
        dead = True

        async def handler(task: Task) -> Outcome:
            async with crawling.gate.turn(task.lane):
                if task.lane == "dead" and dead:
                    return Outcome(Reason.CONNECTION_ERROR)
            return Outcome(Reason.OK, items=[task.key])

        tasks = [Task(f"d{n}", "dead") for n in range(100)] + [Task("a", "alive")]
        crawling = Setup([Page(tasks, "1")], handler=handler)
        assert await crawling.run() is Ending.DONE
        counts = await crawling.store.counts()
        assert counts.attempts[Reason.CONNECTION_ERROR] == 10
        assert counts.blocked == counts.open == 100
        rows = [row async for row in crawling.store.failures()]
        assert len(rows) == 100 and {row.reason for row in rows} == {Reason.BLOCKED}

        dead = False
        crawling = Setup([], handler=handler, store=crawling.store)
        assert await crawling.run() is Ending.DONE
        counts = await crawling.store.counts()
        assert counts.open == 0 and counts.settled[Reason.OK] == 101

    run_sim(main())


def test_our_own_bug_neither_slows_a_lane_nor_buries_a_task():
    async def main():
        async def handler(task: Task) -> Outcome:
            raise RuntimeError("ours")

        crawling = Setup([Page([Task(f"k{n}", "l") for n in range(40)], "1")], handler=handler)
        await crawling.run()
        assert not crawling.gate.blocked("l")
        counts = await crawling.store.counts()
        assert counts.settled == {Reason.UNKNOWN: 40}
        assert counts.attempts == {Reason.UNKNOWN: 40 * RetryPolicy().attempts}
        rows = [row async for row in crawling.store.failures()]
        assert {row.detail for row in rows} == {"RuntimeError: ours"}

    run_sim(main())


def test_the_source_waits_for_the_store():
    async def main():
        most = 0

        async def handler(task: Task) -> Outcome:
            nonlocal most
            most = max(most, (await crawling.store.counts()).open)
            await crawling.clock.sleep(0.1)
            return Outcome(Reason.OK, items=[1])

        crawling = Setup(
            numbered_pages(3000), handler=handler, high_water=200, manners=Manners(rate=math.inf)
        )
        await crawling.run()
        assert len(crawling.sink.rows) == 3000
        assert most <= 200 + 50

    run_sim(main())


def test_workers_wait_for_a_slow_sink():
    async def main():
        started = 0

        async def handler(task: Task) -> Outcome:
            nonlocal started
            started += 1
            return Outcome(Reason.OK, items=[1])

        crawling = Setup(
            numbered_pages(2000),
            handler=handler,
            manners=Manners(rate=math.inf),
            backlog=10,
            batch=10,
        )
        seen: list[int] = []
        plain = crawling.sink.write

        async def slow(batch):
            await crawling.clock.sleep(5.0)
            seen.append(started - len(crawling.sink.rows))
            await plain(batch)

        crawling.sink.write = slow
        await crawling.run()
        # In flight, waiting for the sink, and being written: no more than these can be started.
        assert max(seen) <= 8 + 10 + 10
        assert len(crawling.sink.rows) == 2000

    run_sim(main())


def test_results_that_come_together_are_settled_together():
    async def main():
        async def handler(task: Task) -> Outcome:
            await crawling.clock.sleep(1.0)
            return Outcome(Reason.OK, items=[1])

        crawling = Setup(
            numbered_pages(400),
            handler=handler,
            workers=100,
            manners=Manners(rate=math.inf, concurrency=50),
        )
        await crawling.run()
        assert max(crawling.sink.batches) >= 50

    run_sim(main())


def test_the_crew_can_grow_and_shrink_while_it_works():
    async def main():
        now_inside: list[int] = []
        inside = 0

        async def handler(task: Task) -> Outcome:
            nonlocal inside
            inside += 1
            now_inside.append(inside)
            await crawling.clock.sleep(1.0)
            inside -= 1
            return Outcome(Reason.OK, items=[1])

        crawling = Setup(
            numbered_pages(400),
            handler=handler,
            workers=2,
            manners=Manners(rate=math.inf, concurrency=50),
        )

        async def resize() -> None:
            await crawling.clock.sleep(5.5)
            assert max(now_inside) == 2
            crawling.control.workers = 20
            await crawling.clock.sleep(5.0)
            assert max(now_inside) == 20
            crawling.control.workers = 3
            await crawling.clock.sleep(2.0)
            del now_inside[:]
            await crawling.clock.sleep(5.0)
            assert max(now_inside) <= 3
            crawling.control.workers = 50

        _, ending = await asyncio.gather(resize(), crawling.run())
        assert ending is Ending.DONE and len(crawling.sink.rows) == 400

    run_sim(main())


def test_pause_starts_nothing_new_and_resume_goes_on():
    async def main():
        crawling = Setup(numbered_pages(200))

        async def meddle() -> None:
            await crawling.clock.sleep(1.0)
            crawling.control.pause()
            await crawling.clock.sleep(100.0)
            before = sum(crawling.control.figures.tally.values())
            await crawling.clock.sleep(1000.0)
            assert sum(crawling.control.figures.tally.values()) == before < 200
            assert crawling.control.figures.in_flight == 0
            crawling.control.resume()

        await asyncio.gather(meddle(), crawling.run())
        assert (await crawling.store.counts()).open == 0

    run_sim(main())


def test_drain_finishes_what_is_in_flight_and_loses_nothing():
    async def main():
        crawling = Setup(numbered_pages(300))

        async def stop() -> None:
            await crawling.clock.sleep(3.0)
            crawling.control.drain()

        _, ending = await asyncio.gather(stop(), crawling.run())
        assert ending is Ending.DRAINED
        counts = await crawling.store.counts()
        assert counts.leased == 0 and 0 < len(crawling.sink.rows) < 300
        again = Setup(numbered_pages(300), store=crawling.store)
        again.sink = crawling.sink
        await again.run()
        counts = await crawling.store.counts()
        assert counts.open == 0 and sum(counts.settled.values()) == 300
        assert max(crawling.sink.writes.values()) == 1

    run_sim(main())


def test_stopping_at_once_loses_nothing_either():
    async def main():
        crawling = Setup(numbered_pages(300), lease=60.0)
        running = asyncio.create_task(crawling.run())
        await crawling.clock.sleep(3.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await crawling.clock.sleep(61.0)
        again = Setup(numbered_pages(300), store=crawling.store)
        again.sink = crawling.sink
        await again.run()
        counts = await crawling.store.counts()
        assert counts.open == 0 and sum(counts.settled.values()) == 300

    run_sim(main())


def test_a_sink_that_fails_stops_the_crawl_with_its_own_error_and_settles_nothing():
    async def main():
        crawling = Setup(numbered_pages(200), lease=60.0)
        crawling.sink = DictSink(fail_at=60)
        with pytest.raises(OSError, match="disk full"):
            await crawling.run()
        counts = await crawling.store.counts()
        assert counts.settled.get(Reason.OK, 0) <= len(crawling.sink.rows)
        await crawling.clock.sleep(100.0)
        again = Setup(numbered_pages(200), store=crawling.store)
        again.sink = crawling.sink
        await again.run()
        settled = (await crawling.store.counts()).settled
        assert settled[Reason.OK] == len(crawling.sink.rows)

    run_sim(main())


def test_long_tasks_keep_their_lease():
    async def main():
        runs: Counter[str] = Counter()

        async def handler(task: Task) -> Outcome:
            runs[task.key] += 1
            await crawling.clock.sleep(1000.0)
            return Outcome(Reason.OK, items=[1])

        crawling = Setup(
            [Page([Task("slow", "l"), Task("also", "l")], "1")], handler=handler, lease=60.0
        )
        await crawling.run()
        assert runs == {"slow": 1, "also": 1}

    run_sim(main())


def test_what_a_task_finds_is_crawled_too_each_key_once():
    async def main():
        async def handler(task: Task) -> Outcome:
            n = int(task.key)
            children = [Task(str(c), f"l{c % 3}") for c in (2 * n, 2 * n + 1, n) if c < 500]
            return Outcome(Reason.OK, items=[n], found=children)

        crawling = Setup([Page([Task("1", "l1")], "1")], handler=handler)
        await crawling.run()
        assert set(crawling.sink.rows) == {str(n) for n in range(1, 500)}
        assert max(crawling.sink.writes.values()) == 1

    run_sim(main())


def test_a_revisit_does_not_keep_the_crawl_and_is_done_when_due():
    async def main():
        visits: list[float] = []

        async def handler(task: Task) -> Outcome:
            visits.append(crawling.clock.now())
            return Outcome(Reason.OK, items=[1], again_in=3600.0)

        crawling = Setup([Page([Task("k", "l")], "1")], handler=handler)
        await crawling.run()
        assert len(visits) == 1 and (await crawling.store.counts()).scheduled == 1
        await crawling.clock.sleep(4000.0)
        crawling = Setup([], handler=handler, store=crawling.store)
        await crawling.run()
        assert len(visits) == 2
        crawling = Setup(
            [], handler=handler, store=crawling.store, follow=True, most_seconds=8000.0
        )
        assert await crawling.run() is Ending.LIMIT
        assert len(visits) == 4

    run_sim(main())


def test_limits_on_tasks_and_time_end_the_run_exactly():
    async def main():
        crawling = Setup(numbered_pages(300), most_tasks=57)
        assert await crawling.run() is Ending.LIMIT
        assert sum(crawling.control.figures.tally.values()) == 57
        crawling = Setup(numbered_pages(3000), most_seconds=20.0)
        assert await crawling.run() is Ending.LIMIT
        assert crawling.clock.now() < 30.0

    run_sim(main())


def test_more_lanes_than_fit_in_memory_are_all_visited():
    async def main():
        async def handler(task: Task) -> Outcome:
            await crawling.clock.sleep(0.01)
            return Outcome(Reason.OK, items=[1])

        tasks = [Task(f"k{n}", f"lane{n % 900}") for n in range(2700)]
        crawling = Setup([Page(tasks, "1")], handler=handler, lanes=50, workers=30)
        await crawling.run()
        assert len(crawling.sink.rows) == 2700
        assert (await crawling.store.counts()).open == 0

    run_sim(main())


def test_throughput_comes_close_to_what_the_rates_allow():
    async def main():
        async def handler(task: Task) -> Outcome:
            async with crawling.gate.turn(task.lane):
                await crawling.clock.sleep(0.05)
            return Outcome(Reason.OK, items=[1])

        manners = Manners(rate=1.0, concurrency=1, gap_from_end=True)
        tasks = [Task(f"k{n}", f"lane{n % 200}") for n in range(6000)]
        crawling = Setup([Page(tasks, "1")], handler=handler, workers=50, manners=manners)
        await crawling.run()
        ideal = 6000 / 200 * 1.05
        assert crawling.clock.now() <= ideal / 0.98

    run_sim(main())


def test_a_host_is_not_blamed_for_where_it_redirects_to():
    async def main():
        async def handler(task: Task) -> Outcome:
            async with crawling.gate.turn(task.lane):
                return Outcome(Reason.CONNECTION_ERROR, lane="elsewhere")

        crawling = Setup([Page([Task(f"k{n}", "honest") for n in range(5)], "1")], handler=handler)
        running = asyncio.create_task(crawling.run())
        while not (crawling.gate.blocked("elsewhere") or crawling.gate.blocked("honest")):
            await asyncio.sleep(0.05)
        assert not crawling.gate.blocked("honest")
        await running
        assert crawling.gate.blocked("elsewhere") and not crawling.gate.blocked("honest")

    run_sim(main())


def test_what_no_store_can_keep_costs_its_own_task_only():
    async def main():
        async def handler(task: Task) -> Outcome:
            found = [Task("odd", "l", payload=object())] if task.key == "k3" else []
            return Outcome(Reason.OK, items=[1], found=found)

        crawling = Setup([Page([Task(f"k{n}", "l") for n in range(20)], "1")], handler=handler)
        assert await crawling.run() is Ending.DONE
        counts = await crawling.store.counts()
        assert counts.settled == {Reason.OK: 19, Reason.UNKNOWN: 1}
        assert [row.key async for row in crawling.store.failures()] == ["k3"]

    run_sim(main())


def test_a_companion_runs_beside_the_crawl_resizes_it_and_ends_with_it() -> None:
    async def main() -> tuple[list[str], int]:
        clock = SimClock()
        gate = Gate(clock, Manners(rate=math.inf, concurrency=100))
        told: list[str] = []

        async def companion(control: Control) -> None:
            told.append("began")
            control.workers = 7
            try:
                await clock.sleep(1e9)
            finally:
                told.append("ended")

        control, store = Control(1), MemoryStore()
        parts = Parts(
            Feed(ListSource(numbered_pages(100)), store),
            store,
            World(clock, gate, trouble=False),
            DictSink(),
            gate,
            clock,
            companions=[companion],
        )
        await crawl(parts, Limits(), control)
        return told, control.workers

    assert run_sim(main()) == (["began", "ended"], 7)


@pytest.mark.parametrize("gap_from_end", [False, True])
def test_a_lane_that_is_well_again_does_not_wait_out_the_gap_of_an_ill_one(gap_from_end):
    """The gap after the first good answer was still the long one, at a rate halved four times."""
    clock = SimClock()
    begun: list[float] = []
    manners = Manners(
        rate=1.0, concurrency=1, halve_every=2, floor=0.01, block_at=99, gap_from_end=gap_from_end
    )
    gate = Gate(clock, manners)

    async def handler(task: Task) -> Outcome:
        async with gate.turn(task.lane):
            begun.append(clock.now())
            await asyncio.sleep(0.1)
        return Outcome(Reason.UNAVAILABLE if len(begun) <= 8 else Reason.OK)

    async def main():
        store = MemoryStore()
        page = Page([Task(f"k{n}", "host") for n in range(12)], "1")
        parts = Parts(Feed(ListSource([page]), store), store, handler, None, gate, clock)
        limits = Limits(retry=RetryPolicy(attempts=1))
        assert await crawl(parts, limits, Control(3)) is Ending.DONE

    run_sim(main())
    gaps = [b - a for a, b in itertools.pairwise(begun)]
    least = 1.1 if gap_from_end else 1.0
    assert gaps[7] == pytest.approx(least + 15.0, abs=0.2)  # Its rate is halved four times.
    assert all(least - 1e-6 <= gap < least + 0.2 for gap in gaps[8:]), gaps
