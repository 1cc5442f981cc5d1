"""A drawn world of a fleet is run: the real supervisor, and what happens to it when."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.random_worlds.fleet_world import (
    PATIENCE,
    Crawl,
    Event,
    FleetWorld,
    Network,
    Shard,
    Threads,
    Trap,
)
from tests.support.servers import RedisServer
from trawlnet.engine.outcome import Reason
from trawlnet.engine.partition import BUCKETS
from trawlnet.fleet.compose import Composer
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Command, Seen, begin, supervise
from trawlnet.net.clock import SystemClock
from trawlnet.storage.objects import FolderObjects
from trawlnet.stores.errors import StoreUnreachable
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore


@dataclass
class Ran:
    word: Word
    network: Network
    failed: dict[str, Reason]
    happened: list[str]


async def run_world(world: FleetWorld, redis: RedisServer, folder: Path) -> Ran:
    """The whole crawl, to its end."""
    network, away = Network(world), threading.Event()
    job = ShardJob(
        shard=0,
        crawler="repos",
        config={},
        store=redis.url,
        s3={},
        stands=world.stands,
        manners_gap=max(host.gap for host in world.hosts),
        scratch=str(folder / "scratch"),
    )
    runtime = Threads(Crawl(world, network, job, folder / "archive", away))
    keys, store = await FleetKeys.open(redis.url), await RedisStore.open(redis.url)
    composer = Composer(keys, FolderObjects(folder / "archive"), SystemClock(), world.segment)
    seen: list[Seen] = []
    command = Command(
        keys, store, composer, runtime, SystemClock(), world.stands, lambda one: seen.append(one)
    )
    director = Director(world, network, redis, keys, runtime, away)
    try:
        await begin(keys, world.shards)
        directing = asyncio.create_task(director.run())
        async with asyncio.timeout(PATIENCE):
            word = await supervise(command)
        for task in (directing, *director.aside):
            task.cancel()
        await asyncio.gather(directing, *director.aside, return_exceptions=True)
        failed = {one.key: one.reason async for one in store.failures(None)}
        return Ran(word, network, failed, director.happened)
    except TimeoutError:
        last = seen[-1] if seen else None
        raise AssertionError(f"it does not end: {director.happened}, {last}") from None
    finally:
        await asyncio.to_thread(runtime.close)
        await store.close()
        await keys.close()


@dataclass
class Director:
    """Lets things happen, each when so many requests were made."""

    world: FleetWorld
    network: Network
    redis: RedisServer
    keys: FleetKeys
    runtime: Threads
    away: threading.Event
    happened: list[str] = field(default_factory=list)
    aside: list[asyncio.Task[None]] = field(default_factory=list)  # What takes its time.

    async def run(self) -> None:
        for event in sorted(self.world.events, key=lambda one: one.at):
            while self.network.total < event.at:
                await asyncio.sleep(0.01)
            self.happened.append(f"{event.what} {event.shard} {event.number} {event.seconds:.2f}")
            while True:
                try:
                    await getattr(self, event.what)(event)
                    break
                except StoreUnreachable:
                    await asyncio.sleep(0.1)

    async def scale(self, event: Event) -> None:
        await self.keys.change(shards=event.number)

    async def move(self, event: Event) -> None:
        plan = await self.keys.plan()
        buckets = range(event.shard, BUCKETS, 3)
        await self.keys.move(plan, tuple((n, event.number % plan.shards) for n in buckets))

    async def kill(self, event: Event) -> None:
        if (shard := self.runtime.running.get(event.shard)) is not None:
            shard.kill()

    async def freeze(self, event: Event) -> None:
        if (shard := self.runtime.running.get(event.shard)) is not None:
            shard.freeze()
            asyncio.get_running_loop().call_later(event.seconds, shard.awake.set)

    async def freeze_in(self, event: Event) -> None:
        """In the middle of a call to the store, until others have its lanes, and longer."""
        if (shard := self.runtime.running.get(event.shard)) is not None:
            shard.trap = trap = Trap(event.script, event.number, event.kills)
            self.aside.append(asyncio.create_task(self._wake(shard, trap, event.seconds)))

    async def _wake(self, shard: Shard, trap: Trap, seconds: float) -> None:
        while not trap.token or await self._owns(trap.token):
            await asyncio.sleep(0.02)
        self.happened.append(f"{trap.token} was replaced in {trap.script}")
        await asyncio.sleep(seconds)
        shard.awake.set()

    async def _owns(self, token: str) -> bool:
        try:
            return token in await self.keys.owners()
        except StoreUnreachable:
            return True  # Nobody can tell now.

    async def restart_redis(self, event: Event) -> None:
        await asyncio.to_thread(self.redis.kill)
        await asyncio.sleep(event.seconds / 4)
        await asyncio.to_thread(self.redis.start)

    async def lose_objects(self, event: Event) -> None:
        self.away.set()
        asyncio.get_running_loop().call_later(event.seconds, self.away.clear)

    async def pause(self, event: Event) -> None:
        await self.keys.window.wish(paused=True)
        await asyncio.sleep(event.seconds / 2)
        await self.keys.window.wish(paused=False)
