"""Shards that share a crawl: one owner for each lane, and no late word from a former one."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import pytest

from tests.support.losing_answers import losing_answers
from tests.support.servers import RedisServer
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.partition import BUCKETS, bucket_of, share_of
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.fleet.supervise import begin
from trawlnet.stores.errors import Fenced
from trawlnet.stores.fence import Fence
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.work.store import RedisStore

NOW, TTL = 1_700_000_000.0, 60.0
LONG = 60.0  # Seconds that a token stands; no test waits for it.
LANES = [f"pds{number}.example" for number in range(40)]
TASKS = [Task(f"key{number}", LANES[number % len(LANES)]) for number in range(120)]


@dataclass
class OnePart:
    """Every result is in one part, of which so many keys are expected."""

    name: str
    left: set[str] = field(default_factory=set)

    def part_of(self, key: str) -> str:
        return self.name

    def settled(self, keys: Iterable[str]) -> Iterable[str]:
        self.left -= set(keys)
        return () if self.left else (self.name,)


@dataclass
class Fleet:
    url: str
    prefix: str
    opened: list[FleetKeys | RedisStore] = field(default_factory=list)

    async def keys(self, shard: int | None = None) -> FleetKeys:
        keys = await FleetKeys.open(self.url, shard=shard, prefix=self.prefix)
        self.opened.append(keys)
        return keys

    async def store(
        self, keys: FleetKeys | None = None, buckets: frozenset[int] = frozenset()
    ) -> RedisStore:
        fence = Fence(keys.token, buckets, OnePart(f"{keys.token}.1")) if keys else None
        owner = keys.token if keys else None
        store = await RedisStore.open(self.url, owner=owner, prefix=self.prefix, fence=fence)
        self.opened.append(store)
        return store

    async def planned(self, shards: int) -> FleetPlan:
        return await (await self.keys()).change(run=1, shards=shards, word=Word.RUN)

    async def shard(self, number: int, plan: FleetPlan) -> tuple[FleetKeys, RedisStore]:
        keys, share = await self.keys(number), share_of(number, plan.shards)
        claim = await keys.claim(plan, share, (), LONG)
        assert claim and claim.granted
        return keys, await self.store(keys, share)


@pytest.fixture
def fleet(redis: RedisServer, request: pytest.FixtureRequest) -> Fleet:
    return Fleet(redis.url, f"{request.node.name}:")


def run(fleet: Fleet, tell: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        try:
            await tell()
        finally:
            for one in fleet.opened:
                await one.close()

    asyncio.run(whole())


def test_scripts_and_python_agree_on_the_bucket_of_a_lane(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(1)
        keys = await fleet.keys(0)
        lane = "bücher.example:8080"
        others = frozenset(range(BUCKETS)) - {bucket_of(lane)}
        await keys.claim(plan, others, (), LONG)
        store = await fleet.store(keys, others)
        await (await fleet.store()).feed(Page([Task("a", lane), Task("b", "pds.example")], "b"))
        assert [work.lane for work in await store.lanes(None, 10)] == ["pds.example"]
        with pytest.raises(Fenced, match=lane):
            await store.lease({lane: 1}, NOW, TTL)

    run(fleet, tell)


def test_each_shard_sees_and_leases_its_own_lanes_only(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(3)
        shards = [await fleet.shard(number, plan) for number in range(3)]
        await shards[0][1].feed(Page(TASKS, "end"))
        seen = [[work.lane for work in await store.lanes(None, 7)] for _, store in shards]
        every: list[str] = []
        for number, (_, store) in enumerate(shards):
            after: str | None = None
            while lanes := await store.lanes(after, 3):
                assert len(lanes) <= 3
                assert all(bucket_of(work.lane) in share_of(number, 3) for work in lanes)
                every += [work.lane for work in lanes]
                after = lanes[-1].lane
            assert set(seen[number]) <= set(every)
        assert sorted(every) == sorted(LANES)

    run(fleet, tell)


def test_a_claim_sent_again_after_a_lost_answer_is_granted_at_once(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(1)
        before, _ = await fleet.shard(0, plan)
        await before.release()
        async with losing_answers(int(fleet.url.rpartition(":")[2].partition("/")[0])) as proxy:
            url = f"redis://127.0.0.1:{proxy.port}/0"
            keys = await FleetKeys.open(url, shard=0, prefix=fleet.prefix)
            await keys.statuses()  # A script that it need not know for the one that is lost.
            proxy.lose = 1
            claim = await keys.claim(plan, share_of(0, 1), (), LONG)
            assert proxy.lost == 1
            # It has not heard who was there before it: it must wait as if somebody had been.
            assert claim and claim.granted and claim.before
            assert (await keys.beat(0, {"token": keys.token}, LONG)).stands
            await keys.close()

    run(fleet, tell)


def test_what_is_owned_is_not_granted_again_until_it_is_given_up(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(2)
        first, _ = await fleet.shard(0, plan)
        rival = await fleet.keys(0)
        claim = await rival.claim(plan, share_of(0, 2), (), LONG)
        assert claim and not claim.granted and 0 < claim.wait <= LONG
        await first.release()
        claim = await rival.claim(plan, share_of(0, 2), (), LONG)
        assert claim and claim.granted and claim.before == [first.token]
        beat = await first.beat(0, {"token": first.token}, LONG)
        assert not beat.stands and beat.plan == plan

    run(fleet, tell)


def test_nothing_is_claimed_under_a_plan_that_has_changed(fleet: Fleet) -> None:
    async def tell() -> None:
        old = await fleet.planned(2)
        keys = await fleet.keys(0)
        new = await (await fleet.keys()).change(shards=4)
        assert await keys.claim(old, share_of(0, 2), (), LONG) is None
        assert (new.shards, new.word) == (4, Word.RUN) and new.version == old.version + 1
        claim = await keys.claim(new, share_of(0, 4), (), LONG)
        assert claim and claim.granted

    run(fleet, tell)


def test_a_replaced_shard_can_do_nothing_any_more(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(1)
        old_keys, old = await fleet.shard(0, plan)
        await old.feed(Page(TASKS, "early"))
        held = list((await old.lease({LANES[0]: 3}, NOW, TTL)).tasks)
        new_keys = await fleet.keys(0)
        claim = await new_keys.claim(plan, share_of(0, 1), [old_keys.token], LONG)
        assert claim and claim.granted
        new = await fleet.store(new_keys, share_of(0, 1))
        before = await new.counts()
        assert before.leased == 0
        for late in (
            old.settle([Receipt(held[0], Reason.OK, found=[Task("found", LANES[1])])]),
            old.lease({LANES[1]: 1}, NOW, TTL),
            old.hold(LANES[0], NOW + 100),
            old.feed(Page([Task("fed late", LANES[2])], "late")),
        ):
            with pytest.raises(Fenced):
                await late
        assert await new.counts() == before
        assert await new.cursor() == "early"
        assert await new_keys.parts() == []
        await new.settle([Receipt(held[0], Reason.OK)])
        assert await new_keys.parts() == [f"{new_keys.token}.1"]
        assert await new_keys.placed(f"{new_keys.token}.1") == {held[0].key.encode()}

    run(fleet, tell)


def test_a_bucket_takes_its_cursor_along(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(2)
        (zero, first), (one, second) = [await fleet.shard(n, plan) for n in (0, 1)]
        await first.feed(Page([], "m"))
        assert (await first.cursor(), await second.cursor()) == ("m", None)
        await second.feed(Page([], "c"))
        await zero.release()
        await one.release()
        plan = await (await fleet.keys()).change(shards=1)
        _, only = await fleet.shard(0, plan)
        assert await only.cursor() == "c"  # Of the buckets that are furthest behind.

    run(fleet, tell)


def test_a_segment_stands_for_parts_that_can_get_no_more(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(1)
        keys, store = await fleet.shard(0, plan)
        await store.feed(Page(TASKS, "end"))
        done, late = (await store.lease({LANES[0]: 2}, NOW, TTL)).tasks
        part = f"{keys.token}.1"
        store._fence.places.left = {done.key, late.key}  # type: ignore[attr-defined]
        await store.settle([Receipt(done, Reason.OK)])
        assert await keys.composable() == []
        assert not await keys.publish([part], {"segment": 1})
        await store.settle([Receipt(late, Reason.OK)])
        assert await keys.composable() == [part]
        assert await keys.publish([part], {"segment": 1})
        assert not await keys.publish([part], {"segment": 2}), "somebody was quicker"
        assert await keys.manifest() == [{"segment": 1}]
        assert (await keys.parts(), await keys.placed(part)) == ([], set())

    run(fleet, tell)


def test_what_a_dead_shard_left_half_settled_can_be_composed(fleet: Fleet) -> None:
    async def tell() -> None:
        plan = await fleet.planned(1)
        keys, store = await fleet.shard(0, plan)
        await store.feed(Page(TASKS, "end"))
        (done,) = (await store.lease({LANES[0]: 1}, NOW, TTL)).tasks
        store._fence.places.left = {"never"}  # type: ignore[attr-defined]
        await store.settle([Receipt(done, Reason.OK)])
        heir = await fleet.keys(0)
        assert await heir.composable() == []
        await heir.claim(plan, share_of(0, 1), [keys.token], LONG)
        assert await heir.composable() == [f"{keys.token}.1"]
        assert await heir.publish([f"{keys.token}.1"], {})
        assert not await heir.publish([f"{keys.token}.1"], {}), "somebody was quicker"
        assert await heir.manifest() == [{}]

    run(fleet, tell)


def test_buckets_are_moved_under_the_plan_that_was_looked_at(fleet: Fleet) -> None:
    async def tell() -> None:
        plan, keys = await fleet.planned(2), await fleet.keys()
        bucket = min(share_of(0, 2))
        moved = await keys.move(plan, ((bucket, 1),))
        assert moved is not None and moved.version == plan.version + 1
        assert bucket in moved.buckets_of(1) and bucket not in moved.buckets_of(0)
        assert await keys.move(plan, ()) is None, "it has changed since"
        assert await keys.plan() == moved

    run(fleet, tell)


def test_what_waits_is_told_by_bucket_without_blocked_lanes(fleet: Fleet) -> None:
    async def tell() -> None:
        store, keys = await fleet.store(), await fleet.keys()
        await store.feed(Page(TASKS, "early"))
        counted = Counter(bucket_of(task.lane) for task in TASKS)
        assert await keys.waiting() == counted
        await store.hold(TASKS[0].lane, math.inf)
        blocked = sum(task.lane == TASKS[0].lane for task in TASKS)
        assert sum((await keys.waiting()).values()) == len(TASKS) - blocked

    run(fleet, tell)


def test_a_new_crawl_is_shared_out_by_what_is_expected_and_goes_on_as_it_was(fleet: Fleet) -> None:
    async def tell() -> None:
        keys = await fleet.keys()
        loads = dict.fromkeys(sorted(share_of(0, 2))[:4], 100)
        plan = await begin(keys, 2, expected=loads)
        parts = [sum(loads[n] for n in loads if n in plan.buckets_of(shard)) for shard in (0, 1)]
        assert parts == [200, 200]
        again = await begin(keys, 2)
        assert (again.run, again.moved) == (plan.run, plan.moved)
        await keys.change(word=Word.DONE)
        assert (await begin(keys, 2)).moved == ()

    run(fleet, tell)
