"""What shards share for every page: places that end with a lease, and turns at a host."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.support.servers import RedisServer
from trawlnet.crawlers.web.visiting.shared_turns import SharedTurns
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.partition import bucket_of, share_of
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.stores.errors import Fenced
from trawlnet.stores.fence import CounterDelta, Fence
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.fleet.share import PlaceAnswer, ShareKeys, Want
from trawlnet.stores.redis.scripts import connect
from trawlnet.stores.redis.work.store import RedisStore

NOW, TTL, LONG = 1_700_000_000.0, 60.0, 60.0
TWO = Want("pages", 2)
_numbers = itertools.count()


@dataclass
class Shard:
    """One shard in one term of its ownership."""

    fleet: FleetKeys
    store: RedisStore
    keys: ShareKeys

    async def leased(self, lane: str, want: int = 10) -> list[Task]:
        return list((await self.store.lease({lane: want}, NOW, TTL)).tasks)

    async def settle(self, task: Task, counts: dict[str, int], reason: Reason = Reason.OK) -> None:
        await self.store.settle([Receipt(task, reason, at=NOW, news=CounterDelta(counts))])


@dataclass
class Place:
    url: str
    stack: AsyncExitStack
    prefix: str

    async def plan(self, shards: int) -> FleetPlan:
        keys = await self._fleet(None)
        return await keys.change(run=1, shards=shards, word=Word.RUN)

    async def shard(self, plan: FleetPlan, number: int, past: tuple[str, ...] = ()) -> Shard:
        fleet = await self._fleet(number)
        buckets = share_of(number, plan.shards)
        claim = await fleet.claim(plan, buckets, past, LONG)
        assert claim and claim.granted
        fence = Fence(fleet.token, buckets)
        opened = RedisStore.open(self.url, owner=fleet.token, prefix=self.prefix, fence=fence)
        store = await opened
        self.stack.push_async_callback(store.close)
        keys = ShareKeys(connect(self.url), self.url, fleet.token, self.prefix)
        self.stack.push_async_callback(keys.close)
        return Shard(fleet, store, keys)

    async def _fleet(self, number: int | None) -> FleetKeys:
        keys = await FleetKeys.open(self.url, shard=number, prefix=self.prefix)
        self.stack.push_async_callback(keys.close)
        return keys


def shared(redis: RedisServer, use: Callable[[Place], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            await use(Place(redis.url, stack, f"share{next(_numbers)}:"))

    asyncio.run(main())


def tasks_on(lane: str, count: int) -> Page:
    return Page([Task(f"{lane}/{number}", lane) for number in range(count)], "1")


def test_a_cap_holds_over_shards_and_waits_for_pages_that_may_fail(redis: RedisServer) -> None:
    async def use(place: Place) -> None:
        plan = await place.plan(2)
        one, other = await place.shard(plan, 0), await place.shard(plan, 1)
        here, there = lane_of_shard(0), lane_of_shard(1)
        await one.store.feed(tasks_on(here, 3))
        await other.store.feed(tasks_on(there, 3))
        mine, theirs = await one.leased(here), await other.leased(there)
        assert (await one.keys.take(mine[0].key, [TWO])).answer is PlaceAnswer.TAKEN
        assert (await other.keys.take(theirs[0].key, [TWO])).answer is PlaceAnswer.TAKEN
        assert (await one.keys.take(mine[1].key, [TWO])).answer is PlaceAnswer.BUSY
        await other.settle(theirs[0], {}, Reason.NOT_FOUND)
        assert (await one.keys.take(mine[1].key, [TWO])).answer is PlaceAnswer.TAKEN
        await one.settle(mine[0], {"pages": 1})
        await one.settle(mine[1], {"pages": 1})
        full = await other.keys.take(theirs[1].key, [Want("elsewhere", 9), TWO])
        assert (full.answer, full.want) == (PlaceAnswer.FULL, TWO)
        assert await one.fleet.tallies(["pages", "elsewhere"]) == [2, 0]

    shared(redis, use)


def lane_of_shard(number: int) -> str:
    names = (f"host{n}.example" for n in itertools.count())
    return next(name for name in names if bucket_of(name) in share_of(number, 2))


def test_places_taken_twice_count_once_and_looking_takes_none(redis: RedisServer) -> None:
    async def use(place: Place) -> None:
        one = await place.shard(await place.plan(1), 0)
        await one.store.feed(tasks_on("a.example", 2))
        first, second = await one.leased("a.example")
        for _ in range(3):
            assert (await one.keys.take(first.key, [Want("p", 2)])).answer is PlaceAnswer.TAKEN
        only_looking = Want("p", 1, places=0)
        assert (await one.keys.take(second.key, [only_looking])).answer is PlaceAnswer.TAKEN
        assert (await one.keys.take(second.key, [Want("p", 2)])).answer is PlaceAnswer.TAKEN

    shared(redis, use)


def test_a_dead_shards_places_are_free_when_its_lanes_are_claimed(redis: RedisServer) -> None:
    async def use(place: Place) -> None:
        plan = await place.plan(1)
        dead = await place.shard(plan, 0)
        await dead.store.feed(tasks_on("a.example", 1))
        (task,) = await dead.leased("a.example")
        assert (await dead.keys.take(task.key, [Want("p", 1)])).answer is PlaceAnswer.TAKEN
        heir = await place.shard(plan, 0, past=(dead.fleet.token,))
        (again,) = await heir.leased("a.example")
        assert (await heir.keys.take(again.key, [Want("p", 1)])).answer is PlaceAnswer.TAKEN
        with pytest.raises(Fenced):
            await dead.keys.take(task.key, [Want("p", 1)])
        with pytest.raises(Fenced):
            await dead.settle(task, {"p": 1})
        await heir.settle(again, {"p": 1})
        assert await heir.fleet.tallies(["p"]) == [1]

    shared(redis, use)


def test_a_key_that_is_settled_already_is_not_counted_again(redis: RedisServer) -> None:
    async def use(place: Place) -> None:
        one = await place.shard(await place.plan(1), 0)
        await one.store.feed(tasks_on("a.example", 1))
        (task,) = await one.leased("a.example")
        await one.settle(task, {"p": 1})
        await one.settle(task, {"p": 1})
        assert await one.fleet.tallies(["p"]) == [1]

    shared(redis, use)


def test_links_found_for_anothers_lane_are_that_shards_to_lease(redis: RedisServer) -> None:
    async def use(place: Place) -> None:
        plan = await place.plan(2)
        one, other = await place.shard(plan, 0), await place.shard(plan, 1)
        here, there = lane_of_shard(0), lane_of_shard(1)
        await one.store.feed(tasks_on(here, 1))
        (task,) = await one.leased(here)
        found = Task("deep", there, score=400.0)
        await one.store.settle([Receipt(task, Reason.OK, found=[found], at=NOW)])
        assert (await other.store.counts()).open == 1
        assert [work.lane for work in await other.store.lanes(None, 9)] == [there]
        assert await one.store.lanes(None, 9) == []
        assert await other.fleet.woken(9) == [there] and await other.fleet.woken(9) == []
        assert await one.fleet.woken(9) == [], "of its own lanes a shard knows"
        with pytest.raises(Fenced):
            await one.leased(there)
        await one.store.feed(Page([Task("seed", here)], "2"))
        (seed,) = await one.leased(here)
        nearer = Task("deep", there, score=100.0)
        await one.store.settle([Receipt(seed, Reason.OK, found=[nearer], at=NOW)])
        (got,) = await other.leased(there)
        assert (got.key, got.score) == ("deep", 100.0)

    shared(redis, use)


def test_one_shard_at_a_time_asks_a_host_or_its_address(redis: RedisServer) -> None:
    async def use(place: Place) -> None:
        plan = await place.plan(2)
        one, other = await place.shard(plan, 0), await place.shard(plan, 1)
        mine, theirs = {"a": 30.0, "@10.0.0.1": 20.0}, {"b": 30.0, "@10.0.0.1": 20.0}
        assert await one.keys.turn(mine, LONG) == 0.0
        assert 0.0 < await other.keys.turn(theirs, LONG) < 1.0, "it may end at any time"
        assert await other.keys.turn({"b": 30.0, "@10.0.0.2": 20.0}, LONG) == 0.0
        await one.keys.turned(mine)
        assert 10.0 < await other.keys.turn(theirs, LONG) <= 30.0
        assert 20.0 < await other.keys.turn({"a": 30.0}, LONG) <= 30.0

    shared(redis, use)


def test_the_turn_of_a_dead_shard_is_over_after_a_gap(redis: RedisServer) -> None:
    async def use(place: Place) -> None:
        plan = await place.plan(1)
        dead = await place.shard(plan, 0)
        assert await dead.keys.turn({"a": 0.05}, LONG, "a") == 0.0
        heir = await place.shard(plan, 0, past=(dead.fleet.token,))
        wait = await heir.keys.turn({"a": 0.05}, LONG, "a")
        assert 0.0 < wait <= 0.05
        with pytest.raises(Fenced):
            await dead.keys.turn({"a": 0.05}, LONG, "a")
        await asyncio.sleep(wait + 0.01)
        assert await heir.keys.turn({"a": 0.05}, LONG, "a") == 0.0

    shared(redis, use)


@dataclass
class LooseGate:
    """Lets everybody in: what is kept to here is kept to by the shared turns."""

    gap: float = 0.0
    closing: Callable[[], bool] = lambda: False
    left: list[str] = field(default_factory=list)
    parked: dict[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def turn(self, lane: str) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.left.append(lane)

    def interval(self, lane: str) -> float:
        return self.gap

    def park(self, lane: str, until: float) -> None:
        self.parked[lane] = until


def test_hosts_of_two_shards_at_one_address_are_asked_one_after_the_other(
    redis: RedisServer,
) -> None:
    gap, spans = 0.02, list[tuple[float, float]]()

    async def use(place: Place) -> None:
        plan, clock = await place.plan(2), SystemClock()

        async def address_of(lane: str) -> str:
            return "10.0.0.1"

        async def ask(number: int) -> None:
            keys, lane = (await place.shard(plan, number)).keys, lane_of_shard(number)
            gate = LooseGate()
            turns = SharedTurns(gate, keys, clock, gate, address_of, gap, LONG, lambda lane: True)
            for _ in range(5):
                async with turns.turn(lane):
                    begun = clock.now()
                    await asyncio.sleep(0.002)
                    spans.append((begun, clock.now()))

        await asyncio.gather(ask(0), ask(1))

    shared(redis, use)
    assert len(spans) == 10
    for (_, end), (begun, _) in itertools.pairwise(sorted(spans)):
        assert begun - end >= gap - 0.001  # Redis tells the time in milliseconds.


def test_a_turn_that_cannot_be_had_gives_the_gates_own_back(redis: RedisServer) -> None:
    """Not with a shard that was replaced, nor within a long gap that it has left behind."""
    gate = LooseGate(30.0)

    async def use(place: Place) -> None:
        plan, clock = await place.plan(1), SystemClock()
        dead = await place.shard(plan, 0)

        async def nowhere(lane: str) -> str:
            return ""

        def turns_of(keys: ShareKeys) -> SharedTurns:
            return SharedTurns(gate, keys, clock, gate, nowhere, 1.0, LONG, lambda lane: True)

        async with turns_of(dead.keys).turn("a.example"):
            assert gate.left == []
        heir = await place.shard(plan, 0, past=(dead.fleet.token,))
        for keys, trouble in ((dead.keys, Fenced), (heir.keys, LaneParked)):
            with pytest.raises(trouble):
                async with turns_of(keys).turn("a.example"):
                    pytest.fail("nobody may ask now")

    shared(redis, use)
    assert gate.left == ["a.example"] * 3
    # So that the others who wait there are not tried one by one.
    assert gate.parked.keys() == {"a.example"}


@pytest.mark.parametrize("seed", range(3))
def test_no_place_is_lost_or_given_twice_whatever_happens(redis: RedisServer, seed: int) -> None:
    """Leases, places, settlements and take-overs in any order, beside a model of them."""
    dice, most = random.Random(seed), 9
    want = Want("pages", most)

    async def use(place: Place) -> None:
        plan = await place.plan(2)
        shards = [await place.shard(plan, number) for number in range(2)]
        held: list[dict[str, Task]] = [{}, {}]
        taken: set[str] = set()
        kept = 0
        for number, shard in enumerate(shards):
            await shard.store.feed(tasks_on(lane_of_shard(number), 20))
        for _ in range(150):
            number = dice.randrange(2)
            shard, mine = shards[number], held[number]
            what = dice.choice(["lease", "take", "take", "settle", "settle", "replace"])
            if what == "lease":
                mine |= {task.key: task for task in await shard.leased(lane_of_shard(number), 3)}
            elif what == "replace" and dice.random() < 0.2:
                shards[number] = await place.shard(plan, number, past=(shard.fleet.token,))
                taken -= mine.keys()
                mine.clear()
            elif what == "take" and mine:
                key = dice.choice(sorted(mine))
                answer = (await shard.keys.take(key, [want])).answer
                if kept >= most and key not in taken:
                    assert answer is PlaceAnswer.FULL
                elif key in taken or kept + len(taken) < most:
                    assert answer is PlaceAnswer.TAKEN
                    taken.add(key)
                else:
                    assert answer is PlaceAnswer.BUSY
            elif what == "settle" and mine:
                task = mine.pop(dice.choice(sorted(mine)))
                good = task.key in taken and dice.random() < 0.5
                kept += good
                taken.discard(task.key)
                again = None if good else task.retried(0.0)
                reason = Reason.OK if good else Reason.TIMEOUT
                news = CounterDelta({"pages": 1} if good else {})
                await shard.store.settle([Receipt(task, reason, next=again, at=NOW, news=news)])
            under_way = await shards[0].store.ask("HGET", "under_way", "pages")
            assert int(under_way or 0) == len(taken)
            assert await shards[0].fleet.tallies(["pages"]) == [kept]
            assert kept + len(taken) <= most

    shared(redis, use)
