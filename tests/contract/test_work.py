"""The Work contract on everything that keeps work: stores, the ids ledger and the PDS registry.

A sentence that a kind cannot keep to names the capability it lacks; the reason stands in
`work_kinds.py`. What only a store with a frontier can do is in `test_store.py`.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.work_kinds import LACKS, NOW, Can, Harness, harness
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts, Work
from trawlnet.engine.task import Task
from trawlnet.stores.packing import pack_payload, unpack_payload

TTL = 60.0


Story = Callable[[Work, Harness], Awaitable[None]]


def story(*needs: Can) -> Callable[[Story], Callable[..., None]]:
    """A test told about one kind, run on each that can do what it needs."""

    def told(tell: Story) -> Callable[..., None]:
        @on_all_that_can(*needs)
        def test(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
            kind = harness(name, request, tmp_path)

            async def run() -> None:
                work = await kind.open()
                try:
                    await tell(work, kind)
                    await check_sums(work, Can.OPEN_AHEAD not in LACKS[name])
                finally:
                    await kind.close()

            asyncio.run(run())

        test.__name__ = tell.__name__
        return test

    return told


def on_all_that_can(*needs: Can) -> pytest.MarkDecorator:
    able = [name for name, lacks in LACKS.items() if not lacks.keys() & set(needs)]
    return pytest.mark.parametrize("name", able)


async def check_sums(work: Work, open_ahead: bool) -> None:
    counts = await work.counts()
    assert counts.remembered == counts.open + counts.scheduled + sum(counts.settled.values())
    assert counts.blocked <= counts.open
    if open_ahead:
        assert counts.leased + counts.waiting <= counts.open


def wants(tasks: list[Task]) -> Mapping[str, int]:
    return Counter(task.lane for task in tasks)


async def leased(work: Work, tasks: list[Task], now: float = NOW) -> set[str]:
    return {task.key for task in (await work.lease(wants(tasks), now, TTL)).tasks}


def keys(tasks: list[Task]) -> set[str]:
    return {task.key for task in tasks}


@story()
async def test_a_lane_with_work_is_listed_and_its_tasks_are_leased_as_they_are(
    work: Work, kind: Harness
) -> None:
    tasks = await kind.add(3)
    assert {one.lane for one in await work.lanes(None, 99)} == set(wants(tasks))
    lease = await work.lease(wants(tasks), NOW, TTL)
    assert sorted(lease.tasks, key=lambda task: task.key) == sorted(tasks, key=lambda t: t.key)
    assert not lease.dues, "no lane had less than was asked for"


@story()
async def test_lanes_beyond_the_last_are_none(work: Work, kind: Harness) -> None:
    await kind.add(3)
    lanes = await work.lanes(None, 99)
    assert await work.lanes(lanes[-1].lane, 99) == []


@story()
async def test_no_more_is_leased_than_was_asked_for(work: Work, kind: Harness) -> None:
    tasks = await kind.add(3)
    lane, _ = next(iter(wants(tasks).items()))
    assert len((await work.lease({lane: 1}, NOW, TTL)).tasks) == 1
    lease = await work.lease({"elsewhere": 1}, NOW, TTL)
    assert (list(lease.tasks), lease.dues) == ([], {"elsewhere": math.inf})


@story()
async def test_a_leased_task_is_given_to_nobody_else(work: Work, kind: Harness) -> None:
    tasks = await kind.add(3)
    assert await leased(work, tasks) == keys(tasks)
    assert await leased(work, tasks) == set()
    assert (await work.counts()).leased == 3


@story(Can.EMPTY)
async def test_a_lane_with_nothing_more_says_so(work: Work, kind: Harness) -> None:
    tasks = await kind.add(1)
    await leased(work, tasks)
    assert (await work.lease(wants(tasks), NOW, TTL)).dues == {tasks[0].lane: math.inf}


@story(Can.LEASES_END)
async def test_a_lease_ends_when_its_time_is_up_unless_it_is_renewed(
    work: Work, kind: Harness
) -> None:
    tasks = await kind.add(2)
    assert await leased(work, tasks) == keys(tasks)
    await work.renew([tasks[0].key, "unknown"], NOW + 50.0, TTL)
    assert await leased(work, tasks, NOW + TTL - 0.01) == set()
    assert await leased(work, tasks, NOW + TTL) == {tasks[1].key}
    assert await leased(work, tasks, NOW + 109.0) == set()
    assert await leased(work, tasks, NOW + 110.0) == {tasks[0].key}


@story()
async def test_settling_ends_the_lease_and_counts_the_try(work: Work, kind: Harness) -> None:
    tasks = await kind.add(2)
    await leased(work, tasks)
    one, other = tasks
    await work.settle([kind.done(one, Reason.OK, NOW), kind.done(other, Reason.TIMEOUT, NOW + 1.0)])
    counts = await work.counts()
    assert (counts.open, counts.leased, counts.known) == (0, 0, 2)
    assert sum(counts.attempts.values()) == 2
    assert await leased(work, tasks, NOW + 10 * TTL) == set()


@story()
async def test_a_late_receipt_undoes_nothing(work: Work, kind: Harness) -> None:
    tasks = await kind.add(1)
    await leased(work, tasks)
    await work.settle([kind.done(tasks[0], Reason.OK, NOW)])
    before = await work.counts()
    await work.settle([kind.done(tasks[0], Reason.TIMEOUT, NOW)])
    assert _keys_of(await work.counts()) == _keys_of(before)


@story(Can.RETRIES)
async def test_a_receipt_says_when_its_key_is_tried_again(work: Work, kind: Harness) -> None:
    (task,) = tasks = await kind.add(1)
    await leased(work, tasks)
    receipt = kind.done(task, Reason.TIMEOUT, NOW)
    await work.settle([replace(receipt, next=task.retried(NOW + 30.0))])
    assert await leased(work, tasks, NOW + 29.0) == set()
    assert await leased(work, tasks, NOW + 30.0) == {task.key}


@story()
async def test_a_payload_is_plain_data(work: Work, kind: Harness) -> None:
    for task in (await work.lease(wants(await kind.add(2)), NOW, TTL)).tasks:
        assert unpack_payload(pack_payload(task)) == task.payload


@story()
async def test_a_held_lane_says_so_and_is_still_served(work: Work, kind: Harness) -> None:
    tasks = await kind.add(1)
    lane = tasks[0].lane
    await work.hold(lane, NOW + 30.0)
    assert [one.held for one in await work.lanes(None, 9)] == [NOW + 30.0]
    assert await work.holds(NOW) == {lane: NOW + 30.0}
    assert await work.holds(NOW + 30.0) == {}
    assert await leased(work, tasks) == keys(tasks)
    await work.hold(lane, math.inf)
    assert await work.holds(NOW) == {lane: math.inf}
    await work.hold(lane, 0.0)
    assert await work.holds(NOW) == {}
    assert all(one.held == 0.0 for one in await work.lanes(None, 9))


@story(Can.OPEN_AHEAD)
async def test_what_waits_on_a_blocked_lane_is_counted(work: Work, kind: Harness) -> None:
    tasks = await kind.add(1)
    await work.hold(tasks[0].lane, math.inf)
    assert (await work.counts()).blocked == 1
    await work.hold(tasks[0].lane, 0.0)
    assert (await work.counts()).blocked == 0


@on_all_that_can(Can.HOLDS_LAST)
def test_a_hold_survives_a_restart(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kind = harness(name, request, tmp_path)

    async def run() -> None:
        work = await kind.open()
        tasks = await kind.add(1)
        await work.hold(tasks[0].lane, NOW + 30.0)
        await kind.close()
        work = await kind.open()
        assert [one.held for one in await work.lanes(None, 9)] == [NOW + 30.0]
        assert await work.holds(NOW) == {tasks[0].lane: NOW + 30.0}
        await kind.close()

    asyncio.run(run())


def _keys_of(counts: Counts) -> tuple[int, int, int, Mapping[Reason, int]]:
    return counts.open, counts.scheduled, counts.remembered, counts.settled
