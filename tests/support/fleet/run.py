"""Run a fleet over a simulated network, and look at what it leaves."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support import child
from tests.support.program import PATIENCE, environment
from tests.support.repos.run import FAST
from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.reader import Place, find_segments, open_segment
from trawlnet.archive.verify import verify_segment
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.fleet.balance import Loads
from trawlnet.fleet.compose import Composer
from trawlnet.fleet.crawlers import run_job
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Command, Seen, begin, supervise
from trawlnet.net.clock import SystemClock
from trawlnet.storage.objects import open_objects
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore

STANDS = 1.5  # Seconds.
_NOTHING: Loads = MappingProxyType({})


def fleet_config(world: Mapping[str, Any], redis: str, archive: str, **more: Any) -> ReposConfig:
    """`world` is what a simulated network says when it is ready."""
    given = FAST | {"plc_url": world["plc"], "relay": (world["relay"],), "store": redis}
    given |= {"archive": archive, "part_seconds": 0.3, "part_size": "64KB", "shard_timeout": STANDS}
    return ReposConfig(**(given | more))


def job_of(
    config: ReposConfig, scratch: Path, s3: Mapping[str, str] | None = None, gap: float = 0.1
) -> ShardJob:
    return ShardJob(
        shard=0,
        crawler="repos",
        config=config.model_dump(mode="json"),
        store=config.redis_address,
        s3=s3 or {},
        stands=config.shard_timeout,
        manners_gap=gap,
        scratch=str(scratch),
    )


@dataclass
class Tasks:
    """A runtime whose shards are tasks of this event loop."""

    job: ShardJob
    running: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    started: Counter[int] = field(default_factory=Counter)

    def ensure(self, shard: int) -> None:
        if shard in self.running and self.running[shard].done():
            task = self.running.pop(shard)
            if not task.cancelled() and (error := task.exception()):
                raise error
        if shard not in self.running:
            self.started[shard] += 1
            work = run_job(replace(self.job, shard=shard))
            self.running[shard] = asyncio.create_task(work, name=f"shard {shard}")

    def replace(self, shard: int) -> None:
        self.release(shard)
        self.ensure(shard)

    def release(self, shard: int) -> None:
        if task := self.running.pop(shard, None):
            task.cancel()


@asynccontextmanager
async def commanded(
    config: ReposConfig,
    runtime: Any,
    s3: Mapping[str, str] | None = None,
    show: Callable[[Seen], None] | None = None,
) -> AsyncIterator[Command]:
    keys = await FleetKeys.open(config.redis_address)
    store = await RedisStore.open(config.redis_address)
    objects = open_objects(config.archive, s3 or {})
    clock = SystemClock()
    composer = Composer(keys, objects, clock, config.segment_size)
    seen: list[Seen] = []
    try:
        yield Command(
            keys, store, composer, runtime, clock, config.shard_timeout, show or seen.append
        )
    finally:
        await keys.close()
        await store.close()


async def crawl_with(
    config: ReposConfig,
    runtime: Any,
    s3: Mapping[str, str] | None = None,
    show: Callable[[Seen], None] | None = None,
    shards: int = 2,
    loads: Loads = _NOTHING,
) -> Word:
    async with commanded(config, runtime, s3, show) as command:
        await begin(command.keys, shards, expected=loads)
        return await supervise(command)


def dids_in_manifest(place: Place) -> Counter[str]:
    """How often each DID is in a segment that is listed; all of them are sound."""
    found: Counter[str] = Counter()
    for path in find_segments(place):
        verdict = verify_segment(path)
        assert verdict.sound and verdict.finalised, verdict.damage
        segment = open_segment(path)
        with segment.open() as fd:
            blocks = segment.blocks(fd, check=True)
            found.update(block.head.did for block in blocks if isinstance(block, FoundBlock))
    return found


@contextmanager
def world_process(
    seed: int, accounts: int, hosts: int, log: Path, latency: float = 0.02
) -> Iterator[dict[str, Any]]:
    """A simulated network that nobody's work here keeps waiting; gives what it says of itself."""
    process = subprocess.Popen(
        child.module("support.fleet.world", seed, accounts, hosts, latency, log),
        env=environment(PYTHONPATH=child.PATH),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


@dataclass(frozen=True)
class Gap:
    """Between two requests to one host, in seconds."""

    seen: float  # Between the instants at which the server came to look at them.
    most: float  # From the earliest instant at which the first can have been there.


def gaps_in(log: Path) -> list[Gap]:
    """Between requests to each host but the directory, which all shards ask, as servers saw them.
    A server that waits for the processor sees requests late, and the next ones too soon after
    them; a gap was too short for certain if even the most that it can have been is."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for line in log.read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["host"], []).append((row["time"], row["since"]))
    rows.pop("127.0.0.1", None)
    pairs = itertools.chain.from_iterable(itertools.pairwise(sorted(one)) for one in rows.values())
    return [Gap(later[0] - first[0], later[0] - first[1]) for first, later in pairs]


class Processes:
    """A runtime whose shards are processes: one that dies is started again."""

    def __init__(self, job: ShardJob, folder: Path) -> None:
        self._file = folder / "job.json"
        self._file.write_text(json.dumps(asdict(job)))
        self._log = folder / "shards.log"
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.started = 0

    def start(self, shard: int) -> subprocess.Popen[bytes]:
        self.started += 1
        with self._log.open("ab") as log:
            return subprocess.Popen(
                child.module("support.fleet.role", self._file, shard),
                env=environment(),
                stdout=log,
                stderr=log,
            )

    def ensure(self, shard: int) -> None:
        if shard not in self.running or self.running[shard].poll() is not None:
            self.running[shard] = self.start(shard)

    def runs(self, shard: int) -> bool:
        return self.running[shard].poll() is None

    def replace(self, shard: int) -> None:
        """The old one is left to itself: perhaps it only sleeps."""
        self.running[shard] = self.start(shard)

    def release(self, shard: int) -> None:
        self.running.pop(shard, None)

    def kill(self, shard: int) -> None:
        if process := self.running.get(shard):
            process.kill()
            process.wait()

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
