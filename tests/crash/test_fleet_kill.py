"""A fleet whose processes and servers die, freeze and move: everything once, and politely."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support import child
from tests.support.fleet.run import (
    Processes,
    commanded,
    crawl_with,
    dids_in_manifest,
    fleet_config,
    gaps_in,
    job_of,
    world_process,
)
from tests.support.repos.run import Truth
from tests.support.servers import RedisServer, S3Server, free_port, redis_server, s3_server
from trawlnet.archive.remote import remote
from trawlnet.fleet.supervise import Seen, begin, is_done, supervise
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word

ROUNDING = 0.002  # Seconds; timers and stamps are no more exact.
PATIENCE = 120.0  # Seconds; only a test that fails waits that long.


async def until(holds, what: str) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        if await holds():
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"never came about: {what}")


async def published_by(keys: FleetKeys, token: str) -> dict[str, set[bytes]]:
    return {part: await keys.placed(part) for part in await keys.parts() if token in part}


def test_a_frozen_shard_that_wakes_settles_and_publishes_nothing(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        world = await serve_atproto(5, accounts=180, hosts=6, habits=(), latency=0.05)
        config = fleet_config(world.ready_line(), url, str(tmp_path / "archive"), workers=4)
        with closing(Processes(job_of(config, tmp_path), tmp_path)) as runtime:
            async with commanded(config, runtime) as command:
                keys = command.keys
                await begin(keys, 1)
                sleeper = runtime.start(0)

                async def settled() -> int:
                    return sum((await command.store.counts()).settled.values())

                async def some() -> bool:
                    return await settled() > 40 and bool(await keys.parts())

                await until(some, "the first shard settles something")
                os.kill(sleeper.pid, signal.SIGSTOP)
                (old,) = await keys.owners()
                at_freeze = await settled()
                heir = runtime.running[0] = runtime.start(0)

                async def replaced() -> bool:
                    return old not in await keys.owners()

                await until(replaced, "another shard takes over")
                before = await published_by(keys, old)
                os.kill(sleeper.pid, signal.SIGCONT)

                async def done() -> bool:
                    seen = Seen(await keys.plan(), await keys.statuses(), await _counts(command))
                    return is_done(seen)

                await until(done, "the heir is done")
                assert before and await published_by(keys, old) == before
                assert await settled() > at_freeze
                await keys.change(word=Word.DONE)
                assert await asyncio.to_thread(sleeper.wait, PATIENCE) == 0
                assert await asyncio.to_thread(heir.wait, PATIENCE) == 0
                assert await supervise(command) is Word.DONE
        found = dids_in_manifest(tmp_path / "archive")
        assert found.keys() == Truth.of(world).archivable(on_relay=True).keys()
        assert set(found.values()) == {1}
        await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))


async def _counts(command):
    return await command.store.counts()


def test_lanes_move_between_shards_and_no_host_notices(tmp_path: Path) -> None:
    """From two shards to four to one while they crawl; no gap is shorter than asked for."""
    gap = 0.8

    async def main(url: str, told: dict[str, str]) -> None:
        names = ("small_pds_rps", "default_pds_rps", "large_pds_rps", "min_pds_rps")
        config = fleet_config(
            told, url, str(tmp_path / "archive"), **dict.fromkeys(names, 1.0 / gap)
        )
        plans = [4, 1]
        changes: set[asyncio.Task[object]] = set()

        def show(seen: Seen) -> None:
            """Change the plan when all are at work that the last one wants."""
            full = len(seen.shards) == seen.plan.shards
            if plans and full and any(row["attempts"] > 5 for row in seen.shards.values()):
                changes.add(asyncio.create_task(keys.change(shards=plans.pop(0))))

        with closing(Processes(job_of(config, tmp_path, gap=gap), tmp_path)) as runtime:
            keys = await FleetKeys.open(url)
            word = await asyncio.wait_for(crawl_with(config, runtime, show=show), PATIENCE)
            assert word is Word.DONE and not plans
            await keys.close()
        found = dids_in_manifest(tmp_path / "archive")
        everyone = Truth.read(Path(told["manifest"])).archivable(on_relay=True)
        assert found.keys() == everyone.keys()
        assert set(found.values()) == {1}

    log = tmp_path / "requests.jsonl"
    with redis_server() as server, world_process(7, 80, 20, log) as told:
        asyncio.run(main(server.url, told))
    gaps = gaps_in(log)
    assert len(gaps) > 60
    assert min(one.most for one in gaps) > gap - ROUNDING, sorted(one.most for one in gaps)[:9]
    # The server saw most of them soon enough to tell.
    assert statistics.median(one.most - one.seen for one in gaps) < gap / 4


@contextmanager
def killable(server: S3Server) -> Iterator[Front]:
    front = Front(free_port(), server.port)
    try:
        front.start()
        yield front
    finally:
        front.kill()


class Front:
    """In front of the S3 server, to be killed in its place."""

    def __init__(self, port: int, to: int) -> None:
        self.port = port
        self._command = child.module("support.net.tcp_front", port, to)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=child.environment())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


async def trouble(victims: list[str], redis: RedisServer, front: Front, runtime: Processes) -> None:
    """Kill somebody each time that something was settled since the last time."""
    rng = random.Random(len(victims))
    rng.shuffle(victims)
    enough = 0
    while victims:
        await asyncio.sleep(0.05)
        if (settled := settled_in(redis)) <= enough:
            continue
        victim = victims.pop()
        if victim == "redis":
            await asyncio.to_thread(redis.kill)
            await asyncio.sleep(rng.uniform(0, 0.5))
            await asyncio.to_thread(redis.start)
        elif victim == "s3":
            front.kill()
            await asyncio.sleep(rng.uniform(0, 0.5))
            front.start()
        else:
            runtime.kill(rng.choice([one for one in runtime.running if runtime.runs(one)]))
        enough = settled + rng.randint(0, 12)


def settled_in(redis: RedisServer) -> int:
    import redis as client

    with client.Redis.from_url(redis.url) as asked:
        return sum(int(count) for count in asked.hgetall("crawler:settled").values())


def test_whoever_is_killed_everything_is_in_the_manifest_once(tmp_path: Path) -> None:
    async def main(redis: RedisServer, s3: S3Server, front: Front) -> None:
        world = await serve_atproto(11, accounts=320, hosts=12, habits=(), latency=0.05)
        url = f"{s3.make_bucket('archive')}/all"
        options = s3.options | {"endpoint": f"http://127.0.0.1:{front.port}"}
        config = fleet_config(world.ready_line(), redis.url, url, workers=6, attempts=8)
        with closing(Processes(job_of(config, tmp_path, options), tmp_path)) as runtime:
            victims = ["shard"] * 5 + ["redis"] * 4 + ["s3"] * 3
            killing = asyncio.create_task(trouble(victims, redis, front, runtime))
            word = await asyncio.wait_for(crawl_with(config, runtime, options), PATIENCE)
            assert word is Word.DONE
            assert killing.done(), f"the crawl was done before {victims} were killed"
            killing.result()
        found = dids_in_manifest(remote(url, s3.options))
        assert found.keys() == Truth.of(world).archivable(on_relay=True).keys()
        assert set(found.values()) == {1}
        await world.close()

    with redis_server() as redis, s3_server() as s3, killable(s3) as front:
        asyncio.run(main(redis, s3, front))
