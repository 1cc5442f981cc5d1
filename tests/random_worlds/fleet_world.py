"""A fleet in a drawn world: shards die, freeze and wake, lanes move, servers go away.

Every shard is a thread with an event loop and connections of its own. A killed one can reach
nothing any more, and a frozen one does nothing until it wakes, in whatever it was just at. The
shards, the store, the composer and the supervisor are the real ones; the crawl they share is a
small one over hosts that only note who asked when.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redis.exceptions import ConnectionError as RedisGone

from tests.support.repos.made_segments import make_block
from trawlnet.archive.parts import BLOCKS
from trawlnet.crawlers.share import Opened, Share, ShareSource
from trawlnet.engine.crawl import Feed, Limits, Parts
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.fleet.shard import ShardJob, run_shard
from trawlnet.net.clock import SystemClock
from trawlnet.storage.objects import FolderObjects
from trawlnet.storage.part_sink import PartLimits, PartSink
from trawlnet.storage.s3 import ObjectsError
from trawlnet.stores.fence import Fence
from trawlnet.stores.redis import scripts
from trawlnet.stores.redis.scripts import Scripts
from trawlnet.stores.redis.work.store import RedisStore

PATIENCE = 120.0  # Seconds; only a world that fails takes that long.


@dataclass(frozen=True)
class Host:
    name: str
    keys: int
    gap: float  # Seconds between two requests.
    latency: float
    missing: int  # So many of its keys are not there.
    hidden: int  # So many are found only by what is stored of another host.
    flaky: int  # So many answer at the second try only.


@dataclass(frozen=True)
class Event:
    at: int  # When so many requests were made in all.
    what: str
    shard: int = 0
    number: int = 1
    seconds: float = 0.0
    script: str = ""  # In which call to the store it freezes; the `number`-th from then on.
    kills: bool = False  # Whether it dies in its first moment awake.


@dataclass
class Trap:
    """Where a shard freezes: in the middle of a call to the store."""

    script: str
    number: int
    kills: bool
    token: str = ""  # Of the shard's term, once it is frozen.


@dataclass(frozen=True)
class FleetWorld:
    hosts: Sequence[Host]
    events: Sequence[Event]
    shards: int
    workers: int
    stands: float
    part_seconds: float
    part_size: int
    page: int
    segment: int = 4000  # Bytes of parts that become one segment.

    def key(self, host: int, number: int) -> str:
        return f"did:plc:h{host:02d}k{number:03d}"

    def every_key(self) -> Iterable[tuple[Host, str, int]]:
        for index, host in enumerate(self.hosts):
            for number in range(host.keys):
                yield host, self.key(index, number), number

    def present(self) -> Counter[str]:
        return Counter(key for host, key, number in self.every_key() if number >= host.missing)

    def absent(self) -> set[str]:
        return {key for host, key, number in self.every_key() if number < host.missing}


class Network:
    """Hosts, and the log that a judge reads: by host the earliest and the latest instant at which
    each request can have left."""

    def __init__(self, world: FleetWorld) -> None:
        self._world = world
        self._lock = threading.Lock()
        self.log: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.asked = Counter[str]()
        self.total = 0
        self.hosts = {host.name: host for host in world.hosts}
        self._facts = {key: (host, number) for host, key, number in world.every_key()}
        self._hidden: dict[str, list[Task]] = defaultdict(list)
        self.told: list[Task] = []
        for index, host in enumerate(world.hosts):
            revealer = world.key((index + 1) % len(world.hosts), self._last(index + 1))
            for number in range(host.keys):
                task = Task(world.key(index, number), host.name)
                hides = host.keys - host.hidden <= number < host.keys - 1
                (self._hidden[revealer] if hides else self.told).append(task)

    def _last(self, index: int) -> int:
        return self._world.hosts[index % len(self._world.hosts)].keys - 1

    def ask(self, key: str, earliest: float) -> Outcome:
        with self._lock:
            host, number = self._facts[key]
            self.log[host.name].append((earliest, time.monotonic()))
            self.asked[key] += 1
            self.total += 1
            if number < host.missing:
                return Outcome(Reason.NOT_FOUND)
            if number < host.missing + host.flaky and self.asked[key] == 1:
                return Outcome(Reason.TIMEOUT, lane_is_well=True)
            block = make_block(key, self.asked[key])
            return Outcome(Reason.OK, items=[block], found=self._hidden.get(key, ()))


class _Clock(SystemClock):
    """Notes when it was last looked at: no request left before that. A dead shard's never rings:
    an error on its way out may have taken the place of its cancellation."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.looked = 0.0
        self._shard = shard

    async def sleep(self, seconds: float) -> None:
        if self._shard.is_dead:
            raise asyncio.CancelledError
        await super().sleep(seconds)

    def now(self) -> float:
        self.looked = time.monotonic()
        return self._epoch + self.looked


class _Objects(FolderObjects):
    """Of one shard: nothing is put by a dead one, nor while it is frozen or the store is away."""

    def __init__(self, folder: Path, shard: Shard, away: threading.Event) -> None:
        super().__init__(folder)
        self._shard = shard
        self._away = away

    def put(self, name: str, data: Any) -> None:
        self._shard.awake.wait(PATIENCE)
        if self._shard.is_dead or self._away.is_set():
            raise ObjectsError("the object store is away")
        super().put(name, data)


_here = threading.local()  # `shard`: whose thread this is.
_ended = scripts._ended
_call = Scripts._call


async def ended_unless_dead(call: Any) -> Any:
    """In the place of the store's own: a dead shard can tell Redis nothing."""
    shard = getattr(_here, "shard", None)
    if shard is not None and shard.is_dead:
        call.close()
        raise RedisGone("this shard is dead")
    return await _ended(call)


async def called_unless_frozen(scripts: Scripts, name: str, args: Any) -> Any:
    """In the place of the store's own: a shard may freeze when all is decided and nothing sent."""
    shard = getattr(_here, "shard", None)
    trap = shard and shard.trapped(name, scripts._token)
    try:
        return await _call(scripts, name, args)
    finally:
        if trap and trap.kills:
            shard.kill()


class Shard(threading.Thread):
    """One process of a fleet, as far as others can tell."""

    def __init__(self, number: int, crawl: Crawl) -> None:
        super().__init__(name=f"shard {number}", daemon=True)
        self._number = number
        self._crawl = crawl
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self.awake = threading.Event()
        self.awake.set()
        self.is_dead = False
        self.trap: Trap | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        _here.shard = self
        try:
            asyncio.run(self._work())
        except BaseException as error:  # Told to whoever looks after the shards.
            if not self.is_dead:
                self.error = error

    async def _work(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        clock = _Clock(self)
        job = replace(self._crawl.job, shard=self._number)

        def opened(share: Share) -> Any:
            return self._crawl.open(share, clock, self)

        await run_shard(job, opened, clock)

    def kill(self) -> None:
        self.is_dead = True
        self.awake.set()
        if self._loop is not None and self._main is not None and self.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._main.cancel)
            except RuntimeError:
                pass  # It had just ended.

    def freeze(self) -> None:
        if self._loop is not None and self.is_alive():
            self.awake.clear()
            try:
                self._loop.call_soon_threadsafe(self.awake.wait, PATIENCE)
            except RuntimeError:
                self.awake.set()

    def trapped(self, script: str, token: str) -> Trap | None:
        """Where it was frozen just now, if it was; in its own thread."""
        trap = self.trap
        if trap is None or trap.script != script:
            return None
        trap.number -= 1
        if trap.number:
            return None
        self.trap = None
        self.awake.clear()
        trap.token = token
        self.awake.wait(PATIENCE)
        return trap


@dataclass
class Crawl:
    """The crawl that shards share."""

    world: FleetWorld
    network: Network
    job: ShardJob
    archive: Path
    away: threading.Event

    @asynccontextmanager
    async def open(self, share: Share, clock: _Clock, shard: Shard) -> AsyncIterator[Opened]:
        world, network = self.world, self.network
        async with AsyncExitStack() as stack:
            objects = _Objects(self.archive, shard, self.away)
            limit = PartLimits(world.part_size, world.part_seconds)
            sink = PartSink(objects, share.token, clock, limit, share.may_put, BLOCKS)
            stack.push_async_callback(sink.close)
            fence = Fence(share.token, share.buckets, sink)
            store = await RedisStore.open(self.job.store, owner=share.token, fence=fence)
            stack.push_async_callback(store.close)
            gate = Gate(clock, Manners(concurrency=2), barred_until=share.barred_until)
            for host in world.hosts:
                gate.treat(host.name, Manners(rate=1.0 / host.gap, concurrency=2))

            async def visit(task: Task) -> Outcome:
                host = network.hosts[task.lane]
                async with gate.turn(task.lane) as turn:
                    await asyncio.sleep(host.latency / 3)  # The connection is being made.
                    await turn.leave()
                    outcome = network.ask(task.key, clock.looked)
                    await asyncio.sleep(host.latency)
                return outcome

            source = ShareSource(_Told(network.told, world.page), share.run, share.owns)
            limits = Limits(
                lease=2 * PATIENCE,  # Nobody is to wait until a lease ends by itself.
                linger=0.01,
                unsettled=1000,
                follow=True,
                retry=RetryPolicy(attempts=6, base=0.05, cap=0.2),
            )
            parts = Parts(Feed(source, store), store, visit, sink, gate, clock, owns=share.owns)
            yield Opened(parts, limits, world.workers, sink.hurry, dict)


@dataclass
class _Told:
    """All that is not hidden, in pages; the cursor is a number."""

    tasks: Sequence[Task]
    page: int

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        for first in range(int(after or 0), len(self.tasks), self.page):
            last = min(first + self.page, len(self.tasks))
            yield Page(self.tasks[first:last], f"{last:06d}")


@dataclass
class Threads:
    """A runtime that starts again whoever has died."""

    crawl: Crawl
    running: dict[int, Shard] = field(default_factory=dict)
    every: list[Shard] = field(default_factory=list)

    def ensure(self, shard: int) -> None:
        old = self.running.get(shard)
        if old is not None and old.error is not None:
            raise old.error
        if old is None or not old.is_alive():
            new = self.running[shard] = Shard(shard, self.crawl)
            self.every.append(new)
            new.start()

    def replace(self, shard: int) -> None:
        """The old one is left to itself: perhaps it only sleeps."""
        self.running.pop(shard, None)
        self.ensure(shard)

    def release(self, shard: int) -> None:
        self.running.pop(shard, None)

    def close(self) -> None:
        for one in self.every:
            one.kill()
        for one in self.every:
            one.join(PATIENCE)
            assert not one.is_alive(), f"{one.name} does not end"
