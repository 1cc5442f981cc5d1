"""A web fleet whose shards die, freeze and lose their servers: every page once, and politely."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.fleet.run import Processes
from tests.support.fleet.web import (
    captured,
    check_captured,
    least_gap,
    robots_asked,
    split_site,
    web_command,
    web_crawl_with,
    web_fleet_config,
    web_job,
)
from tests.support.servers import RedisServer, redis_server, s3_server
from trawlnet.fleet.supervise import Seen, begin, is_done, supervise
from trawlnet.sim.web import WebWorld
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word

PATIENCE = 250.0  # Seconds; only a test that fails waits that long.
RATE = 10.0  # Requests per second to one host.


def test_shards_and_redis_are_killed_and_every_page_is_captured_once(tmp_path: Path) -> None:
    kills = ["shard", "redis", "shard"]

    async def main(redis: RedisServer, archive: str, s3: dict[str, str]) -> WebWorld:
        async with split_site(tmp_path, hosts=6, pages=30) as world:
            limits = {"req_per_sec": RATE, "max_retries": 6}
            config = web_fleet_config(world, redis.url, archive, limits=limits)
            with closing(Processes(web_job(config, tmp_path, s3), tmp_path)) as runtime:
                killing = Killing(runtime, redis, kills)
                crawling = web_crawl_with(config, runtime, killing.look_at, s3)
                assert await asyncio.wait_for(crawling, PATIENCE) is Word.DONE
                await killing.over()
            assert runtime.started >= 4
        return world

    with redis_server() as redis, s3_server() as s3:
        archive = f"{s3.make_bucket('web')}/site"
        world = asyncio.run(main(redis, archive, s3.options))
        lines = captured(archive, s3.options)
    assert kills == []
    log = tmp_path / "requests.jsonl"
    check_captured(world, lines, log)
    assert least_gap(log) >= 1.0 / RATE
    # Who takes over on this machine knows what robots.txt said; one that was asked may be lost.
    assert max(robots_asked(log).values()) <= 2


class Killing:
    """Kills somebody each time that more has been settled since the last time."""

    def __init__(self, runtime: Processes, redis: RedisServer, victims: list[str]) -> None:
        self._runtime = runtime
        self._redis = redis
        self._victims = victims
        self._enough = 15
        self._restarts: list[asyncio.Task[None]] = []

    def look_at(self, seen: Seen) -> None:
        settled = sum(seen.counts.settled.values())
        if not self._victims or settled < self._enough:
            return
        self._enough = settled + 20
        if self._victims.pop() == "redis":
            self._redis.kill()
            self._restarts.append(asyncio.create_task(asyncio.to_thread(self._redis.start)))
        else:
            busy = [shard for shard, row in seen.shards.items() if row["in_flight"]]
            self._runtime.kill(busy[0] if busy else 0)

    async def over(self) -> None:
        await asyncio.gather(*self._restarts)


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    for _ in range(int(PATIENCE / 0.05)):
        if await holds():
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"never came about: {what}")


async def published_by(keys: FleetKeys, token: str) -> dict[str, set[bytes]]:
    return {part: await keys.placed(part) for part in await keys.parts() if token in part}


def test_a_frozen_shard_that_wakes_settles_and_publishes_nothing(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive")

    async def main(url: str) -> WebWorld:
        async with split_site(tmp_path, hosts=4, pages=25) as world:
            config = web_fleet_config(world, url, archive, limits={"req_per_sec": RATE})
            with closing(Processes(web_job(config, tmp_path), tmp_path)) as runtime:
                async with web_command(config, runtime) as command:
                    keys, store = command.keys, command.store
                    await begin(keys, 1, "web")
                    sleeper = runtime.start(0)

                    async def some() -> bool:
                        settled = (await store.counts()).settled
                        return sum(settled.values()) > 12 and bool(await keys.parts())

                    await until(some, "the first shard settles something")
                    os.kill(sleeper.pid, signal.SIGSTOP)
                    (old,) = await keys.owners()
                    heir = runtime.running[0] = runtime.start(0)

                    async def replaced() -> bool:
                        return old not in await keys.owners()

                    await until(replaced, "another shard takes over")
                    before = await published_by(keys, old)
                    os.kill(sleeper.pid, signal.SIGCONT)

                    async def done() -> bool:
                        plan, rows = await keys.plan(), await keys.statuses()
                        return is_done(Seen(plan, rows, await store.counts()))

                    await until(done, "the heir is done")
                    assert before and await published_by(keys, old) == before
                    await keys.change(word=Word.DONE)
                    assert await asyncio.to_thread(sleeper.wait, PATIENCE) == 0
                    assert await asyncio.to_thread(heir.wait, PATIENCE) == 0
                    assert await supervise(command) is Word.DONE
        return world

    with redis_server() as server:
        world = asyncio.run(main(server.url))
    check_captured(world, captured(archive), tmp_path / "requests.jsonl")
    # What was put and never settled is gone; WARC files of what counts are all there.
    assert list((tmp_path / "archive" / "parts").iterdir()) == []
    files = {line.warc.file for line in captured(archive) if line.warc}
    assert files <= {path.name for path in (tmp_path / "archive" / "warc").iterdir()}
