"""Whoever keeps up with ids is killed or frozen, and another takes over: no id is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis import Redis

from tests.crash.nursery import Nursery, nursery_of, state_of
from tests.support.fleet.run import Processes
from tests.support.ids.world import busiest_second
from tests.support.program import Ran, at_once, started, wait_until
from tests.support.servers import RabbitServer, RedisServer, rabbitmq_server, redis_server
from trawlnet.crawlers.ids.ledger.span_codec import mark_of
from trawlnet.crawlers.ids.model import LedgerMark
from trawlnet.crawlers.ids.storing.locations import KEYS
from trawlnet.fleet.ids import Pair as Kept
from trawlnet.fleet.ids import keep
from trawlnet.fleet.limits import RunLimits
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.standby import Holders, Leadership, holders
from trawlnet.net.clock import SystemClock
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import QueueOptions
from trawlnet.sim.ids import IdsWorld, Traffic, serve_ids
from trawlnet.stores.errors import StateLost
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.spans import SpanKeys

KILLS = int(os.environ.get("TRAWLNET_STANDBY_KILLS", "2"))
PATIENCE = 120.0  # Seconds; only a test that fails waits that long.
MAX_RPS = 250.0
STANDS = 3.0  # Seconds without a beat; whoever gets no processor for so long is replaced as well.
IN_FLIGHT = 250  # What can be published and not settled when a process dies.
STEADY = Traffic(seed=6, rate=60.0, wave=0.0, delay=0.1, raid_share=0.4, hole_share=0.0)
FIRST = STEADY.first_id


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitServer]:
    with rabbitmq_server() as server:
        yield server


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@dataclass
class Pair:
    """Two members over one world, of which the test kills some."""

    world: IdsWorld
    nursery: Nursery
    folder: Path
    redis: str
    rabbit: str
    members: set[int] = field(default_factory=set)

    async def start(self, role: str = "sound") -> int:
        pid = await asyncio.to_thread(self.nursery.start, role)
        self.members.add(pid)
        return pid

    async def kill(self, pid: int) -> None:
        self.members.remove(pid)
        assert await asyncio.to_thread(self.nursery.kill, pid)

    async def holders(self) -> Holders:
        return await holders(self.redis, KEYS)

    async def active(self) -> int:
        """The pid of whoever is active, as soon as there is somebody alive."""

        async def one() -> int:
            found = (await self.holders()).active
            return int(found["pid"]) if found and found["pid"] in self.members else 0

        return await until(one, "one is active")

    async def asked(self, more: int) -> None:
        """Wait for so many more requests."""
        goal = sum(self.world.served.turns.values()) + more

        async def enough() -> bool:
            return sum(self.world.served.turns.values()) >= goal

        await until(enough, f"{more} more requests")

    async def done(self, more: int) -> None:
        """Wait until the ledger says so of so many more ids."""

        def count() -> int:
            return sum(mark is LedgerMark.DONE for mark in self.marks().values())

        goal = await asyncio.to_thread(count) + more

        async def enough() -> bool:
            return await asyncio.to_thread(count) >= goal

        await until(enough, f"{more} more done")

    async def tell(self, word: Word) -> None:
        keys = await FleetKeys.open(self.redis, prefix=KEYS)
        await keys.change(run=1, shards=1, word=word)
        await keys.close()

    async def end(self) -> None:
        await self.tell(Word.DRAIN)
        for pid in self.members:
            assert await asyncio.to_thread(self.nursery.wait, pid) == 0
        self.members.clear()

    def marks(self) -> dict[int, LedgerMark]:
        with closing(SpanKeys(self.redis, KEYS)) as keys:
            spans = list(keys.spans())
        return {n: mark_of(span.word) for span in spans for n in range(span.start, span.end)}

    async def settled_up_to(self, last: int) -> None:
        async def all_of_them() -> bool:
            marks = await asyncio.to_thread(self.marks)
            return all(number in marks for number in range(FIRST, last))

        await until(all_of_them, f"everything below {last} is settled")

    async def published(self) -> Counter[int]:
        """How often each id is in the queue, which is empty afterwards."""
        found: Counter[int] = Counter()
        queue = await open_queue(self.rabbit, "instance_store", QueueOptions(poll=0.02))
        async with aclosing(queue.consume(drain=True)) as deliveries:
            async for one in deliveries:
                found[one.body["instance"]["instance_id"]] += 1
                await one.ack()
        await queue.close()
        return found


async def until(holds: Callable[[], Awaitable[int]], what: str) -> int:
    async with asyncio.timeout(PATIENCE):
        while not (found := await holds()):
            await asyncio.sleep(0.01)
        return found
    pytest.fail(f"never came about: {what}")


@asynccontextmanager
async def pair_over(redis: RedisServer, rabbit: RabbitServer, folder: Path):
    world = await serve_ids(
        STEADY.seed,
        manifest=folder / "manifest.json",
        clock=SystemClock(),
        traffic=STEADY,
        age=120.0,
        log=folder / "server.log",
    )
    given = {"base_url": world.base_url, "target": FIRST, "buffer": 0, "max_rps": MAX_RPS}
    given |= {"allow_private_hosts": True, "store": redis.url, "queue": rabbit.url}
    (folder / "config.json").write_text(json.dumps(given | {"shard_timeout": STANDS}))
    try:
        with nursery_of("standby_roles", folder) as nursery:
            pair = Pair(world, nursery, folder, redis.url, rabbit.url)
            await pair.published()  # What the test before this one left.
            await pair.tell(Word.RUN)
            yield pair
    finally:
        await world.close()


def lost(published: Counter[int], marks: dict[int, LedgerMark]) -> list[int]:
    """Ids that the ledger says are done, and that nobody will ever store."""
    done = [number for number, mark in marks.items() if mark is LedgerMark.DONE]
    assert len(done) > 50
    return [number for number in done if STEADY.is_raid(number) and not published[number]]


def test_no_id_is_lost_when_the_active_one_is_killed_again_and_again(
    redis: RedisServer, rabbit: RabbitServer, tmp_path: Path
) -> None:
    dice = random.Random(KILLS)

    async def main() -> tuple[Counter[int], dict[int, LedgerMark]]:
        async with pair_over(redis, rabbit, tmp_path) as pair:
            await pair.start()
            await pair.start()
            for _ in range(KILLS):
                active = await pair.active()
                await pair.asked(dice.randrange(1, 150))
                await pair.kill(active)
                await pair.start()
            await pair.active()
            last = max(await asyncio.to_thread(pair.marks)) + 50
            await pair.settled_up_to(last)

            async def both() -> bool:
                seen = await pair.holders()
                return len(seen.standbys) == 1 and seen.active is not None

            await until(both, "one works, one waits")
            await pair.end()
            return await pair.published(), pair.marks()

    published, marks = asyncio.run(main())
    assert lost(published, marks) == []
    assert all(STEADY.is_raid(number) for number in published)
    # Twice is what was published when its process died before it was settled.
    assert published.total() - len(published) <= KILLS * IN_FLIGHT
    assert busiest_second(tmp_path / "server.log") <= MAX_RPS


def test_one_that_was_frozen_wakes_and_neither_settles_nor_publishes(
    redis: RedisServer, rabbit: RabbitServer, tmp_path: Path
) -> None:
    def noted(pid: int, what: str) -> int:
        log = tmp_path / "published.log"
        return log.read_text().splitlines().count(f"{pid} {what}") if log.exists() else 0

    async def freeze(pid: int) -> None:
        """Between two batches: of one that has begun it knows already that it may be published."""

        async def stands_still() -> bool:
            return state_of(pid) == "T"

        while True:
            os.kill(pid, signal.SIGSTOP)
            await until(stands_still, "it stands still")
            if noted(pid, "begins") == noted(pid, "ends"):
                return
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.01)

    async def main() -> tuple[Counter[int], dict[int, LedgerMark]]:
        async with pair_over(redis, rabbit, tmp_path) as pair:
            sleeper = await pair.start()
            assert await pair.active() == sleeper
            heir = await pair.start()
            await pair.asked(100)

            async def publishes() -> int:
                return noted(sleeper, "publishes")

            await until(publishes, "something is published")
            await freeze(sleeper)
            before = await publishes()

            async def replaced() -> bool:
                return await pair.active() == heir

            await until(replaced, "the other takes over")
            await pair.asked(100)
            os.kill(sleeper, signal.SIGCONT)

            async def stands_by() -> bool:
                return sleeper in [one["pid"] for one in (await pair.holders()).standbys]

            await until(stands_by, "the one that woke stands by")
            assert await publishes() == before > 0
            assert await pair.active() == heir
            await pair.end()
            return await pair.published(), pair.marks()

    assert lost(*asyncio.run(main())) == []


def test_a_fleet_keeps_one_active_and_one_on_standby_until_it_is_told_to_end(
    redis: RedisServer, rabbit: RabbitServer, tmp_path: Path
) -> None:
    seen: list[Holders] = []

    async def main() -> Word:
        async with pair_over(redis, rabbit, tmp_path) as pair:
            given = json.loads((tmp_path / "config.json").read_text())
            job = ShardJob(0, "ids", given, STANDS, str(tmp_path))
            with closing(Processes(job, tmp_path)) as runtime:
                office = Leadership(redis.url, KEYS, STANDS)
                limits = RunLimits(SystemClock(), None)
                kept = Kept(office, runtime, SystemClock(), seen.append, limits)
                keeping = asyncio.create_task(keep(kept))
                for _ in range(2):

                    async def both() -> int:
                        found = await pair.holders()
                        return found.active["pid"] if found.active and found.standbys else 0

                    pid = await until(both, "one works, one waits")
                    await pair.asked(20)
                    os.kill(pid, signal.SIGKILL)

                    async def another(dead: int = pid) -> bool:
                        found = (await pair.holders()).active
                        return found is not None and found["pid"] != dead

                    await until(another, "the other takes over")
                await pair.tell(Word.DRAIN)
                return await asyncio.wait_for(keeping, PATIENCE)

    assert asyncio.run(main()) is Word.DRAIN
    assert len({one.active["pid"] for one in seen if one.active}) >= 3


def test_the_program_stands_by_takes_over_and_ends_when_all_are_told(
    redis: RedisServer, rabbit: RabbitServer, tmp_path: Path
) -> None:
    place = ("--store", redis.url)

    def told(*words: object) -> Ran:
        return at_once(*words, "-w", tmp_path / "elsewhere", *place, "--json")

    def run(url: str) -> None:
        crawl = ("ids", "crawl", "--base-url", url, "--target", FIRST, "--buffer", 0, *place)
        crawl = (*crawl, "--max-rps", 50, "--allow-private-hosts", "--shard-timeout", STANDS)
        refused = at_once(*crawl, "-w", tmp_path / "a")
        assert refused.code == 2 and "--queue amqp://" in refused.err
        crawl = (*crawl, "--queue", rabbit.url)
        with (
            started(*crawl, "-w", tmp_path / "a", folder=tmp_path / "a.out") as first,
            started(*crawl, "-w", tmp_path / "b", folder=tmp_path / "b.out") as second,
        ):
            wait_until(lambda: bool(told("ids", "status").rows[0]["standby"]), "one stands by")
            status = told("ids", "status").rows[0]
            pids = {first.pid: (first, second), second.pid: (second, first)}
            active, other = pids[status["active"]["pid"]]
            assert status["standby"] == [{"node": status["active"]["node"], "pid": other.pid}]
            wait_until(
                lambda: told("ids", "status").rows[0]["lag_p20_s"] is not None,
                "figures of the active one are seen from elsewhere",
            )
            assert told("ids", "status").rows[0]["newest_id_age_s"] < 600.0
            # Nobody stores what is published: the active one says how much that is.
            wait_until(lambda: told("ids", "status").rows[0]["queue_depth"], "messages wait")
            assert "standing by: " in other.err and "standing by: " not in active.err
            active.tell(signal.SIGSTOP)
            other.says("this one is active")
            active.tell(signal.SIGCONT)
            active.says("standing by: ")
            assert told("fleet", "status", "--ids").rows[0]["active"]["pid"] == other.pid
            (tmp_path / "elsewhere" / "state" / "ids").mkdir(parents=True)
            refused = told("ids", "retry")
            assert refused.code == 11 and "fleet drain --ids" in refused.error["hint"]
            assert told("fleet", "drain", "--ids").code == 0
            assert [one.ended().code for one in (active, other)] == [130, 130]
        assert told("ids", "retry").rows == [{"put_back": 0}]
        ended = told("ids", "status").rows[0]
        assert (ended["active"], ended["lag_p20_s"]) == (None, None)
        assert ended["queue_depth"] is None and ended["key_refused"] is False

    async def main() -> None:
        world = await serve_ids(
            6, manifest=tmp_path / "m.json", clock=SystemClock(), traffic=STEADY, age=60.0
        )
        try:
            await asyncio.to_thread(run, world.base_url)
        finally:
            await world.close()

    asyncio.run(main())


def test_a_redis_that_was_emptied_ends_the_crawl_instead_of_beginning_another(
    redis: RedisServer, rabbit: RabbitServer, tmp_path: Path
) -> None:
    def run(url: str) -> None:
        crawl = ("ids", "crawl", "--base-url", url, "--target", FIRST, "--buffer", 0, "--max-rps")
        crawl = (*crawl, 50, "--allow-private-hosts", "--store", redis.url, "--queue", rabbit.url)
        with (
            started(*crawl, "-w", tmp_path / "a", folder=tmp_path / "a.out") as first,
            started(*crawl, "-w", tmp_path / "b", folder=tmp_path / "b.out") as second,
        ):
            server = Redis.from_url(redis.url)
            wait_until(lambda: server.zcard("ids:spans") > 0, "something is settled")
            wait_until(lambda: bool(server.keys("ids:standby:*")), "one stands by")
            server.flushall()
            ended = [first.ended(), second.ended()]
        assert [one.code for one in ended] == [1, 1]
        assert all("has lost the state of this crawl" in one.err for one in ended)
        (resume,) = re.findall(r"--target (\d+) --buffer 0", "".join(one.err for one in ended))
        assert int(resume) > FIRST
        assert not server.exists("ids:spans", "ids:notes"), "no other ledger was begun"

    async def main() -> None:
        world = await serve_ids(
            6, manifest=tmp_path / "m.json", clock=SystemClock(), traffic=STEADY, age=60.0
        )
        try:
            await asyncio.to_thread(run, world.base_url)
        finally:
            await world.close()

    asyncio.run(main())


def test_a_fleet_notices_that_its_redis_was_emptied(redis: RedisServer) -> None:
    class NoMembers:
        def ensure(self, shard: int) -> None: ...

        def replace(self, shard: int) -> None: ...

        def release(self, shard: int) -> None: ...

    def emptied(seen: Holders) -> None:
        assert seen.plan.word is Word.RUN
        Redis.from_url(redis.url).flushall()

    async def main() -> None:
        keys = await FleetKeys.open(redis.url, prefix=KEYS)
        await keys.change(run=1, shards=1, word=Word.RUN)
        await keys.close()
        clock = SystemClock()
        office, limits = Leadership(redis.url, KEYS, STANDS), RunLimits(clock, None)
        with pytest.raises(StateLost):
            await keep(Kept(office, NoMembers(), clock, emptied, limits))

    asyncio.run(main())


def test_the_check_sees_a_member_that_settles_before_it_publishes(
    redis: RedisServer, rabbit: RabbitServer, tmp_path: Path
) -> None:
    async def main() -> tuple[Counter[int], dict[int, LedgerMark]]:
        async with pair_over(redis, rabbit, tmp_path) as pair:
            for more in (80, 60):
                pid = await pair.start("settle_first")
                await pair.active()
                await pair.done(more)
                await pair.kill(pid)
            return await pair.published(), pair.marks()

    assert lost(*asyncio.run(main()))
