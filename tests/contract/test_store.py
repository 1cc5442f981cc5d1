"""The Store and Ledger contract, sentence by sentence, on every store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.conftest import StoreMaker
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, KeyLedger, LaneWork, Lease, Ledger, Page
from trawlnet.engine.task import Task
from trawlnet.stores.errors import StoreError, UnstorableKey

NOW = 1_700_000_000.125
TTL = 60.0


def story(tell: Callable[[KeyLedger], Awaitable[None]]) -> Callable[[StoreMaker], None]:
    """A test told about one store, run on each kind."""

    def test(maker: StoreMaker) -> None:
        async def run() -> None:
            store = await maker.open()
            await tell(store)
            await check_sums(store)
            await store.close()

        asyncio.run(run())

    test.__name__ = tell.__name__
    return test


async def check_sums(store: Ledger) -> None:
    counts = await store.counts()
    assert counts.remembered == counts.open + counts.scheduled + sum(counts.settled.values())
    assert counts.leased + counts.waiting <= counts.open
    assert counts.blocked <= counts.open


def tasks(*keys: str, lane: str = "host", **fields: Any) -> list[Task]:
    return [Task(key, lane, **fields) for key in keys]


async def fed(store: Ledger, *some: Task, cursor: str = "c") -> int:
    return await store.feed(Page(some, cursor))


async def leased(store: Ledger, most: int = 100, lane: str = "host", now: float = NOW) -> list[str]:
    return [task.key for task in await leased_tasks(store, most, lane, now)]


async def leased_tasks(
    store: Ledger, most: int = 100, lane: str = "host", now: float = NOW
) -> Sequence[Task]:
    return (await store.lease({lane: most}, now, TTL)).tasks


async def settled(store: Ledger, task: Task, reason: Reason = Reason.OK, **fields: Any) -> None:
    await store.settle([Receipt(task, reason, at=NOW, **fields)])


async def failures(store: Ledger, reason: Reason | None = None) -> dict[str, Failure]:
    found = [failure async for failure in store.failures(reason)]
    assert len({failure.key for failure in found}) == len(found)
    return {failure.key: failure for failure in found}


# Pages


@story
async def test_a_new_store_knows_nothing(store: Ledger) -> None:
    assert await store.cursor() is None
    assert await store.counts() == Counts()
    assert await store.lanes(None, 10) == []
    assert await store.lease({"host": 1}, NOW, TTL) == Lease([], {"host": math.inf})
    assert await failures(store) == {}
    assert await store.retry() == 0


@story
async def test_a_page_saves_its_tasks_and_its_cursor(store: Ledger) -> None:
    assert await fed(store, *tasks("a", "b"), cursor="one") == 2
    assert await store.cursor() == "one"
    assert await fed(store, cursor="two") == 0
    assert await store.cursor() == "two"
    assert (await store.counts()).open == 2


@story
async def test_a_page_that_cannot_be_stored_changes_nothing(store: Ledger) -> None:
    await fed(store, *tasks("a"), cursor="one")
    with pytest.raises(UnstorableKey, match="'bad'"):
        await fed(store, Task("b", "host"), Task("bad", "host", object()), cursor="two")
    assert await store.cursor() == "one"
    assert (await store.counts()).known == 1
    assert await leased(store) == ["a"]


@story
async def test_feeding_a_known_key_leaves_it_alone(store: Ledger) -> None:
    assert await fed(store, Task("a", "host", 1), Task("a", "host", 2)) == 1
    assert await fed(store, Task("a", "elsewhere", 3, score=-5.0)) == 0
    (task,) = await leased_tasks(store)
    assert task == Task("a", "host", 1)
    await settled(store, task)
    assert await fed(store, *tasks("a")) == 0
    assert (await store.counts()).open == 0


@story
async def test_a_large_page_goes_in_whole(store: Ledger) -> None:
    many = [Task(f"k{n}", f"lane{n % 7}") for n in range(5_000)]
    assert await fed(store, *many, cursor="end") == 5_000
    assert await fed(store, *many, cursor="end") == 0
    assert (await store.counts()).known == 5_000


# Lanes


@story
async def test_lanes_are_listed_in_order_of_arrival_and_in_parts(store: Ledger) -> None:
    await fed(store, *(Task(f"k{lane}", lane) for lane in "zaym"))
    listed: list[LaneWork] = []
    while part := await store.lanes(listed[-1].lane if listed else None, 3):
        assert len(part) <= 3
        listed += part
    assert listed == [LaneWork(lane, 0.0, 0.0) for lane in "zaym"]


@story
async def test_a_lane_says_when_its_first_task_may_run(store: Ledger) -> None:
    await fed(store, Task("a", "now"), Task("b", "now", due=NOW), Task("c", "soon", due=NOW + 9.5))
    await fed(store, Task("d", "soon", due=NOW + 3.25))
    assert {work.lane: work.due for work in await store.lanes(None, 9)} == {
        "now": 0.0,
        "soon": NOW + 3.25,
    }


@story
async def test_a_lane_whose_tasks_are_all_leased_is_due_when_a_lease_ends(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    await leased(store, 1)
    await leased(store, 1, now=NOW + 5.0)
    assert await store.lanes(None, 9) == [LaneWork("host", NOW + TTL, 0.0)]


@story
async def test_a_lane_without_work_is_not_listed_until_it_has_some(store: Ledger) -> None:
    await fed(store, *tasks("a", lane="first"), *tasks("b", lane="second"))
    (task,) = await leased_tasks(store, lane="first")
    await settled(store, task)
    assert [work.lane for work in await store.lanes(None, 9)] == ["second"]
    await fed(store, *tasks("c", lane="first"))
    assert [work.lane for work in await store.lanes(None, 9)] == ["first", "second"]


@story
async def test_a_held_lane_says_so_and_is_still_served(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    await store.hold("host", NOW + 30.0)
    assert await store.lanes(None, 9) == [LaneWork("host", 0.0, NOW + 30.0)]
    assert await leased(store, 1) == ["a"]
    await store.hold("host", 0.0)
    assert (await store.lanes(None, 9))[0].held == 0.0


# Leases


@story
async def test_each_lane_gives_at_most_what_is_asked_for(store: Ledger) -> None:
    await fed(store, *(Task(f"{lane}{n}", lane) for lane in ("big", "small") for n in range(50)))
    lease = await store.lease({"big": 2, "small": 3, "absent": 1, "none": 0}, NOW, TTL)
    assert [task.key for task in lease.tasks] == ["big0", "big1", "small0", "small1", "small2"]
    assert lease.dues == {"absent": math.inf}


@story
async def test_a_leased_task_is_given_to_nobody_else(store: Ledger) -> None:
    await fed(store, *tasks("a", "b", "c"))
    assert await leased(store, 2) == ["a", "b"]
    assert await leased(store, 2) == ["c"]
    assert await leased(store, 2) == []
    assert (await store.counts()).leased == 3


@story
async def test_a_lease_ends_when_its_time_is_up(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    await leased(store, 1)
    assert await leased(store, 1, now=NOW + TTL - 0.01) == ["b"]
    assert await leased(store, 9, now=NOW + TTL) == ["a"]


@story
async def test_renewing_keeps_a_lease_alive(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    await leased(store)
    await store.renew(["a", "unknown"], NOW + 50.0, TTL)
    assert await leased(store, now=NOW + 60.0) == ["b"]
    assert await leased(store, now=NOW + 109.0) == []
    assert await leased(store, now=NOW + 110.0) == ["a"]


@story
async def test_a_lost_lease_cannot_be_renewed(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    await leased(store)
    await fed(store, *tasks("first", score=-1.0))
    assert await leased(store, 1, now=NOW + TTL) == ["first"]
    await store.renew(["a"], NOW + TTL, TTL)
    assert await leased(store, now=NOW + TTL) == ["a"]


@story
async def test_lower_scores_go_first_and_equal_ones_in_order_of_arrival(store: Ledger) -> None:
    scores = {"a": 5.0, "b": -math.inf, "c": -1.5, "d": 5.0, "e": 0.0, "f": -0.0, "g": 1e300}
    await fed(store, *(Task(key, "host", score=score) for key, score in scores.items()))
    assert await leased(store, 4) == ["b", "c", "e", "f"]
    assert await leased(store, 4) == ["a", "d", "g"]


@story
async def test_arrival_counts_across_pages(store: Ledger) -> None:
    for key in ("z", "m", "a"):
        await fed(store, *tasks(key))
    assert await leased(store) == ["z", "m", "a"]


@story
async def test_a_task_is_not_leased_before_it_is_due(store: Ledger) -> None:
    await fed(store, Task("a", "host", due=NOW + 10.0), Task("b", "host", due=NOW + 5.0))
    lease = await store.lease({"host": 2}, NOW + 4.999, TTL)
    assert (lease.tasks, lease.dues) == ([], {"host": NOW + 5.0})
    lease = await store.lease({"host": 2}, NOW + 5.0, TTL)
    assert [task.key for task in lease.tasks] == ["b"]
    assert lease.dues == {"host": NOW + 10.0}
    lease = await store.lease({"host": 1}, NOW + 10.0, TTL)
    assert (lease.tasks[0].key, lease.dues) == ("a", {})
    assert (await store.lease({"host": 1}, NOW + 10.0, TTL)).dues == {"host": math.inf}


@story
async def test_due_tasks_and_fresh_ones_mix_by_score(store: Ledger) -> None:
    await fed(store, *tasks("f1", score=1.0), *tasks("f2", score=2.0), *tasks("f3", score=3.0))
    await fed(store, Task("d2", "host", due=NOW - 9.0, score=2.0), Task("d0", "host", due=NOW))
    assert await leased(store) == ["f1", "d2", "d0", "f2", "f3"]


# Receipts


@story
async def test_settling_forgets_the_work_and_remembers_the_word(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    one, other = await leased_tasks(store)
    await store.settle([Receipt(one, Reason.OK), Receipt(other, Reason.NOT_FOUND)])
    counts = await store.counts()
    assert (counts.open, counts.leased, counts.known) == (0, 0, 2)
    assert counts.settled == counts.attempts == {Reason.OK: 1, Reason.NOT_FOUND: 1}
    assert await leased(store, now=NOW + 10 * TTL) == []


@story
async def test_a_retry_is_open_and_waits_until_it_is_due(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    await settled(store, task, Reason.TIMEOUT, next=task.retried(NOW + 30.0))
    counts = await store.counts()
    assert (counts.open, counts.leased, counts.waiting, counts.settled) == (1, 0, 1, {})
    assert await leased(store, now=NOW + 29.0) == []
    assert await leased_tasks(store, now=NOW + 30.0) == [task.retried(NOW + 30.0)]
    assert (await store.counts()).waiting == 0


@story
async def test_a_retry_may_move_to_another_lane(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    await settled(store, task, Reason.TIMEOUT, next=Task("a", "elsewhere", attempt=1))
    assert [work.lane for work in await store.lanes(None, 9)] == ["elsewhere"]
    assert await leased(store, lane="elsewhere") == ["a"]


@story
async def test_a_key_that_moves_and_is_settled_in_one_batch_is_leased_no_more(
    store: Ledger,
) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    moved = Task("a", "elsewhere", attempt=1)
    back = Task("a", "host", due=NOW + 5.0)
    await store.settle(
        [Receipt(task, Reason.TIMEOUT, next=moved), Receipt(moved, Reason.OK, next=back)]
    )
    counts = await store.counts()
    assert (counts.open, counts.leased, counts.scheduled) == (0, 0, 1)
    assert await leased(store, now=NOW + 5.0) == ["a"]


@story
async def test_a_revisit_is_scheduled_and_open_only_while_leased(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    await settled(store, task, Reason.OK, next=task.revisited(NOW + 100.0))
    counts = await store.counts()
    assert (counts.open, counts.scheduled, counts.waiting, counts.known) == (0, 1, 0, 1)
    assert (await store.lanes(None, 9))[0].due == NOW + 100.0
    assert await leased(store, now=NOW + 100.0) == ["a"]
    counts = await store.counts()
    assert (counts.open, counts.leased, counts.scheduled) == (1, 1, 0)
    await settled(store, task.revisited(NOW + 100.0), Reason.OK)
    assert (await store.counts()).settled == {Reason.OK: 1}


@story
async def test_an_expired_revisit_is_scheduled_again(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    await settled(store, task, Reason.OK, next=task.revisited(NOW + 100.0))
    assert await leased(store, now=NOW + 100.0) == ["a"]
    await fed(store, *tasks("first", score=-1.0))
    assert await leased(store, 1, now=NOW + 100.0 + TTL) == ["first"]
    counts = await store.counts()
    assert (counts.open, counts.leased, counts.scheduled) == (1, 1, 1)
    assert await leased(store, now=NOW + 100.0 + TTL) == ["a"]


@story
async def test_a_late_receipt_changes_nothing_but_the_attempts(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    one, other = await leased_tasks(store)
    await store.settle([Receipt(one, Reason.OK), Receipt(one, Reason.TIMEOUT, tasks("new"))])
    await settled(store, Task("never seen", "host"), Reason.NOT_FOUND, found=tasks("newer"))
    await settled(store, other, Reason.OK, next=other.revisited(NOW + 100.0))
    await settled(store, other, Reason.TIMEOUT)
    counts = await store.counts()
    assert counts.settled == {Reason.OK: 1}
    assert (counts.known, counts.open, counts.scheduled) == (2, 0, 1)
    assert counts.attempts == {Reason.OK: 2, Reason.TIMEOUT: 2, Reason.NOT_FOUND: 1}


@story
async def test_a_second_receipt_in_a_batch_does_not_undo_a_revisit(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    visited = Receipt(task, Reason.OK, next=task.revisited(NOW + 100.0))
    await store.settle([visited, Receipt(task, Reason.TIMEOUT, tasks("b"))])
    counts = await store.counts()
    assert (counts.scheduled, counts.known, counts.settled) == (1, 1, {})


@story
async def test_a_receipt_counts_even_if_its_lease_has_expired(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    assert await leased(store, now=NOW + TTL) == ["a"]
    await settled(store, task)
    counts = await store.counts()
    assert (counts.open, counts.leased, counts.settled) == (0, 0, {Reason.OK: 1})


@story
async def test_found_tasks_are_added_once(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    one, other = await leased_tasks(store)
    found = [*tasks("c", "c", "a", "b"), Task("d", "other", {"from": "a"})]
    await store.settle([Receipt(one, Reason.OK, found), Receipt(other, Reason.OK, found)])
    assert (await store.counts()).known == 4
    assert await leased(store) == ["c"]
    assert await leased_tasks(store, lane="other") == [Task("d", "other", {"from": "a"})]


@story
async def test_a_found_key_that_is_open_takes_a_lower_score(store: Ledger) -> None:
    await fed(store, *tasks("seed", "x", "y", score=5.0), Task("z", "host", due=NOW, score=9.0))
    (seed,) = await leased_tasks(store, 1, now=NOW - 1.0)
    found = [*tasks("y", score=2.0), *tasks("x", score=7.0), *tasks("z", lane="no", score=1.0)]
    await settled(store, seed, found=found)
    assert await leased_tasks(store) == [
        Task("z", "host", due=NOW, score=1.0),
        Task("y", "host", score=2.0),
        Task("x", "host", score=5.0),
    ]


@story
async def test_a_leased_key_takes_a_lower_score_for_its_next_lease(store: Ledger) -> None:
    await fed(store, *tasks("seed", "x", "y", score=5.0))
    seed = (await leased_tasks(store))[0]
    await settled(store, seed, found=tasks("y", score=1.0))
    assert await leased(store) == []
    assert await leased(store, now=NOW + TTL) == ["y", "x"]


@story
async def test_settled_and_scheduled_keys_do_not_come_back_when_found(store: Ledger) -> None:
    await fed(store, *tasks("seed", "done", "again"))
    seed, done, again = await leased_tasks(store)
    await settled(store, done)
    await settled(store, again, next=again.revisited(NOW + 100.0))
    await settled(store, seed, found=tasks("done", "again", "seed", score=-1.0))
    assert (await store.counts()).open == 0
    assert (await leased_tasks(store, now=NOW + 100.0))[0].score == 0.0


@story
async def test_a_batch_that_cannot_be_stored_changes_nothing(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    one, other = await leased_tasks(store)
    bad = [Task("bad", "host", {"n": 1 << 70})]
    with pytest.raises(UnstorableKey, match="'bad'"):
        await store.settle([Receipt(one, Reason.OK), Receipt(other, Reason.OK, bad)])
    counts = await store.counts()
    assert (counts.open, counts.leased, counts.attempts) == (2, 2, {})
    await store.settle([Receipt(one, Reason.OK), Receipt(other, Reason.OK)])
    assert (await store.counts()).settled == {Reason.OK: 2}


@story
async def test_a_receipt_with_very_many_found_tasks_is_whole(store: Ledger) -> None:
    await fed(store, *tasks("a", "b"))
    one, other = await leased_tasks(store)
    found = [Task(f"f{n}", "found") for n in range(6_000)]
    await store.settle([Receipt(one, Reason.OK, found), Receipt(other, Reason.OK, found)])
    counts = await store.counts()
    assert (counts.open, counts.known, counts.attempts) == (6_000, 6_002, {Reason.OK: 2})


# Failures


@story
async def test_failures_tell_every_key_whose_last_word_was_no_success(store: Ledger) -> None:
    await fed(store, *(Task(key, "host", attempt=3) for key in "abcd"))
    a, b, c, d = await leased_tasks(store)
    await settled(store, a, Reason.NOT_FOUND, detail="gone: é")
    await settled(store, b, Reason.TIMEOUT)
    await settled(store, c, Reason.NOT_MODIFIED)
    await settled(store, d, Reason.TIMEOUT, next=d.retried(NOW + 1.0))
    gone = Failure("a", "host", Reason.NOT_FOUND, "gone: é", 3, NOW)
    late = Failure("b", "host", Reason.TIMEOUT, "", 3, NOW)
    assert await failures(store) == {"a": gone, "b": late}
    assert await failures(store, Reason.NOT_FOUND) == {"a": gone}
    assert await failures(store, Reason.OK) == {}


@story
async def test_open_keys_on_a_blocked_lane_are_failures_and_counted(store: Ledger) -> None:
    await fed(store, *tasks("a", "b", "c", "d", lane="dead"), *tasks("e"))
    one, two, _ = await leased_tasks(store, 3, lane="dead")
    await settled(store, one, Reason.DNS_ERROR, next=one.retried(NOW + 5.0), detail="no such name")
    await settled(store, two, Reason.OK, next=two.revisited(NOW + 5.0))
    await store.hold("dead", math.inf)
    assert (await store.counts()).blocked == 3
    found = await failures(store, Reason.BLOCKED)
    assert found == await failures(store)
    assert found == {
        "a": Failure("a", "dead", Reason.BLOCKED, "no such name", 1, NOW),
        "c": Failure("c", "dead", Reason.BLOCKED, "", 0, 0.0),
        "d": Failure("d", "dead", Reason.BLOCKED, "", 0, 0.0),
    }
    assert await failures(store, Reason.DNS_ERROR) == {}
    assert (await store.lanes(None, 9))[0].held == math.inf
    await store.hold("dead", NOW)
    assert (await store.counts()).blocked == 0
    assert await failures(store) == {}


@story
async def test_a_detail_is_bounded_and_never_stops_a_batch(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    (task,) = await leased_tasks(store)
    await settled(store, task, Reason.PARSE_ERROR, detail="\udcff" + "x" * 100_000)
    detail = (await failures(store))["a"].detail
    assert detail.startswith("?x")
    assert len(detail) == 500


@story
async def test_retry_opens_failures_as_new_in_their_old_order(store: Ledger) -> None:
    await fed(store, *tasks("a", "b", "c", "d", payload={"n": 1}))
    a, b, c, d = await leased_tasks(store)
    await settled(store, c, Reason.TIMEOUT)
    await settled(store, a, Reason.TIMEOUT, detail="x", next=a.retried(NOW))
    (again,) = await leased_tasks(store)
    await settled(store, again, Reason.TIMEOUT, detail="y")
    await settled(store, b, Reason.NOT_FOUND)
    await settled(store, d, Reason.OK)
    assert await store.retry(Reason.NOT_FOUND) == 1
    assert await store.retry() == 2
    assert await store.retry() == 0
    assert await failures(store) == {}
    counts = await store.counts()
    assert (counts.open, counts.waiting, counts.settled) == (3, 0, {Reason.OK: 1})
    assert counts.attempts == {Reason.TIMEOUT: 3, Reason.NOT_FOUND: 1, Reason.OK: 1}
    assert await leased_tasks(store) == tasks("a", "b", "c", payload={"n": 1})


@story
async def test_a_retried_key_can_fail_and_succeed_again(store: Ledger) -> None:
    await fed(store, *tasks("a"))
    for reason in (Reason.TIMEOUT, Reason.NOT_FOUND):
        (task,) = await leased_tasks(store)
        await settled(store, task, reason)
        assert list(await failures(store, reason)) == ["a"]
        assert await store.retry(reason) == 1
    (task,) = await leased_tasks(store)
    await settled(store, task, Reason.OK)
    assert await failures(store) == {}
    assert (await store.counts()).settled == {Reason.OK: 1}


@story
async def test_single_failures_can_be_opened_again(store: KeyLedger) -> None:
    await fed(store, *tasks("a", "b", "c", payload={"n": 1}))
    a, b, c = await leased_tasks(store)
    for task in (a, b):
        await settled(store, task, Reason.NOT_FOUND, detail="x")
    await settled(store, c, Reason.TIMEOUT)
    await store.hold("host", math.inf)
    found = await failures(store)
    outdated = replace(found["c"], reason=Reason.NOT_FOUND)
    unknown = replace(found["b"], key="nobody")
    assert await store.retry_keys([found["b"], outdated, unknown]) == ["b"]
    assert await store.retry_keys([found["b"]]) == []
    assert (await failures(store)).keys() == {"a", "c"}
    assert (await store.lanes(None, 9))[0].held == 0.0
    assert await leased_tasks(store) == tasks("b", payload={"n": 1})
    assert await fed(store, *tasks("a", "b", "c")) == 0


@story
async def test_a_lane_without_tasks_is_held_as_well(store: Ledger) -> None:
    await store.hold("target of a redirect", NOW + 30.0)
    await store.hold("dead", math.inf)
    assert await store.holds(NOW) == {"target of a redirect": NOW + 30.0, "dead": math.inf}


@story
async def test_retry_lets_blocked_lanes_go_and_their_tasks_start_anew(store: Ledger) -> None:
    await fed(store, *(Task(f"{lane}{n}", lane) for lane in ("dead", "slow") for n in range(3)))
    first, second, _ = await leased_tasks(store, lane="dead")
    await settled(store, first, Reason.TIMEOUT, next=first.retried(NOW + 999.0))
    await settled(store, second, Reason.OK, next=second.revisited(NOW + 999.0))
    await store.hold("dead", math.inf)
    await store.hold("slow", NOW + 50.0)
    await store.hold("empty", math.inf)
    assert await store.retry(Reason.TIMEOUT) == 0
    assert (await store.counts()).blocked == 2
    assert await store.retry(Reason.BLOCKED) == 2
    assert {work.lane: work.held for work in await store.lanes(None, 9)} == {
        "dead": 0.0,
        "slow": NOW + 50.0,
    }
    # The third is leased still: its holder's receipt is welcome.
    assert await leased_tasks(store, lane="dead") == [first]
    counts = await store.counts()
    assert (counts.scheduled, counts.blocked, counts.waiting) == (1, 0, 0)


@story
async def test_retry_for_one_reason_lets_go_of_the_lanes_of_its_keys(store: Ledger) -> None:
    await fed(store, *tasks("a", lane="dead"), *tasks("b", "c", lane="gone"))
    (a,) = await leased_tasks(store, lane="dead")
    await settled(store, a, Reason.DNS_ERROR)
    await store.hold("dead", math.inf)
    await store.hold("gone", math.inf)
    assert await store.retry(Reason.DNS_ERROR) == 1
    held = {work.lane: work.held for work in await store.lanes(None, 9)}
    assert held == {"dead": 0.0, "gone": math.inf}


@story
async def test_very_many_failures_are_listed_and_retried(store: Ledger) -> None:
    many = [Task(f"k{n}", f"lane{n % 3}") for n in range(4_500)]
    await fed(store, *many)
    reasons = [Reason.TIMEOUT, Reason.HTTP_ERROR, Reason.UNKNOWN]
    await store.settle([Receipt(task, reasons[n % 3]) for n, task in enumerate(many[:3_000])])
    await store.hold("lane0", math.inf)
    found = await failures(store)
    assert len(found) == 3_500
    assert (await store.counts()).blocked == 500
    assert await store.retry() == 3_500
    assert (await store.counts()).open == 4_500


# What a task may hold


@story
async def test_any_text_is_a_key_and_a_lane(store: Ledger) -> None:
    odd = ["", "\0", "a\0b", "k" * 10_000, "k" * 10_001, "ключ", "🦀" * 2_000, "a:b", " a ", "\r\n"]
    await fed(store, *(Task(key, f"lane {key}") for key in odd))
    assert {work.lane for work in await store.lanes(None, 99)} == {f"lane {key}" for key in odd}
    for key in odd:
        assert await leased(store, lane=f"lane {key}") == [key]
        await store.renew([key], NOW, TTL)
        await settled(store, Task(key, f"lane {key}"), Reason.NOT_FOUND)
    assert set(await failures(store)) == set(odd)
    assert await fed(store, *(Task(key, "x") for key in odd)) == 0


@pytest.mark.parametrize("field", ["key", "lane", "cursor"])
def test_text_that_is_no_unicode_is_refused(maker: StoreMaker, field: str) -> None:
    async def run() -> None:
        store = await maker.open()
        task = Task("a\ud800" if field == "key" else "a", "h\ud800" if field == "lane" else "h")
        with pytest.raises(UnstorableKey, match="ud800") as refused:
            await store.feed(Page([task], "\ud800" if field == "cursor" else "c"))
        assert "errors='replace'" in refused.value.hint
        assert await store.cursor() is None
        assert (await store.counts()).remembered == 0
        await store.close()

    asyncio.run(run())


@story
async def test_a_payload_comes_back_as_it_went_in(store: Ledger) -> None:
    payload = {
        "text": "é\0🦀",
        "bytes": bytes(range(256)),
        "numbers": [0, -1, 2**63, -(2**63), 1.0, 1e-300, math.inf, True, None],
        "deep": [[[[{"a": {"b": []}}]]]],
        "long": "x" * 100_000,
        "": {},
    }
    for key, value in {"a": payload, "b": 0, "c": "", "d": [], "e": False, "f": 1.0}.items():
        await fed(store, Task(key, "host", value))
    first, *others = [task.payload for task in await leased_tasks(store)]
    assert first == payload
    assert [(type(each), each) for each in others] == [
        *((int, 0), (str, ""), (list, []), (bool, False), (float, 1.0))
    ]


@story
async def test_numbers_come_back_exactly(store: Ledger) -> None:
    task = Task("a", "host", None, 0.1 + 0.2, 1 / 3, 2**40, 7)
    await fed(store, task)
    assert await leased_tasks(store) == [task]
    await settled(store, task, Reason.TIMEOUT, next=task.retried(NOW + 0.1))
    assert await leased_tasks(store, now=NOW + 1) == [task.retried(NOW + 0.1)]


@pytest.mark.parametrize(
    "bad",
    [
        Task("bad", "host", object()),
        Task("bad", "host", 1 << 64),
        Task("bad", "host", "\ud800"),
        Task("bad", "host", score=math.nan),
        Task("bad", "host", due=math.nan),
        Task("bad", "host", attempt=-1),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(maker: StoreMaker, bad: Task) -> None:
    async def run() -> None:
        store = await maker.open()
        with pytest.raises(UnstorableKey, match="'bad'") as refused:
            await store.feed(Page([bad], "c"))
        assert refused.value.hint
        await store.close()

    asyncio.run(run())


# Opening again


def test_everything_is_there_after_opening_again(durable: StoreMaker) -> None:
    async def run() -> None:
        store = await durable.open()
        await fed(store, *tasks("a", "b", "c", "d", "e"), cursor="page 9")
        a, b, c, d, _ = await leased_tasks(store)
        await settled(store, a, Reason.OK)
        await settled(store, b, Reason.TIMEOUT, detail="slow")
        await settled(store, c, Reason.TIMEOUT, next=c.retried(NOW + 5.0))
        await settled(store, d, Reason.OK, next=d.revisited(NOW + 9.0))
        await store.hold("host", math.inf)
        before = await store.counts()
        listed = await failures(store)
        await store.close()

        store = await durable.open()
        assert await store.cursor() == "page 9"
        assert await store.counts() == Counts(**{**_fields(before), "leased": 0})
        assert await failures(store) == listed
        assert (await store.lanes(None, 9))[0] == LaneWork("host", 0.0, math.inf)
        assert await fed(store, *tasks("a", "b", "c", "d", "e", "f")) == 1
        assert await leased(store, now=NOW + 9.0) == ["c", "d", "e", "f"]
        await store.close()

    asyncio.run(run())


def test_what_was_leased_at_closing_is_open_again(durable: StoreMaker) -> None:
    async def run() -> None:
        store = await durable.open()
        await fed(store, *tasks("a", "b"))
        assert await leased(store) == ["a", "b"]
        await store.close()
        store = await durable.open()
        assert (await store.counts()).leased == 0
        assert await leased(store) == ["a", "b"]
        await store.close()

    asyncio.run(run())


def test_successes_can_be_forgotten_but_failures_stay(maker: StoreMaker) -> None:
    async def run() -> None:
        store = await maker.open(remember_done=False)
        await fed(store, *tasks("good", "bad", "again"))
        good, bad, again = await leased_tasks(store)
        await settled(store, good, Reason.OK)
        await settled(store, bad, Reason.NOT_FOUND)
        await settled(store, again, Reason.OK, next=again.revisited(NOW + 9.0))
        counts = await store.counts()
        assert (counts.remembered, counts.scheduled, counts.known) == (2, 1, 3)
        assert counts.settled == {Reason.OK: 1, Reason.NOT_FOUND: 1}
        assert await fed(store, *tasks("good", "bad", "again")) == 1
        assert list(await failures(store)) == ["bad"]
        await store.close()

    asyncio.run(run())


def test_an_address_nobody_serves_is_refused() -> None:
    with pytest.raises(StoreError, match="ftp://") as refused:
        asyncio.run(StoreMaker("ftp://example.org/x", "").open())
    assert "redis://" in refused.value.hint


def _fields(counts: Counts) -> dict[str, Any]:
    return {name: getattr(counts, name) for name in Counts.__dataclass_fields__}
