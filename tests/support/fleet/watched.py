"""A fleet beside a test, to be looked at: its shards are processes, and there is no Ray."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fleet.run import Processes, crawl_with, fleet_config, job_of, world_process
from tests.support.servers import RedisServer, redis_server
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word


@dataclass
class WatchedFleet:
    redis: RedisServer
    runtime: Processes
    ended: list[Word] = field(default_factory=list)

    def freeze(self, shard: int) -> None:
        os.kill(self.runtime.running[shard].pid, signal.SIGSTOP)

    def wake(self, shard: int) -> None:
        os.kill(self.runtime.running[shard].pid, signal.SIGCONT)


@contextmanager
def watched_fleet(folder: Path, accounts: int = 1000, rate: float = 1.0) -> Iterator[WatchedFleet]:
    """Two shards on a simulated network of a dozen hosts, slow enough to be looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "requests.jsonl"
    with redis_server() as redis, world_process(7, accounts, 12, log) as told:
        rates = dict.fromkeys(("small_pds_rps", "default_pds_rps", "large_pds_rps"), rate)
        archive = str(folder / "archive")
        config = fleet_config(
            told, redis.url, archive, **rates, min_pds_rps=rate, shard_timeout=4.0
        )
        with closing(Processes(job_of(config, folder, gap=1.0 / rate), folder)) as runtime:
            fleet = WatchedFleet(redis, runtime)

            def command() -> None:
                fleet.ended.append(asyncio.run(crawl_with(config, runtime)))

            thread = threading.Thread(target=command)
            thread.start()
            try:
                yield fleet
            finally:
                asyncio.run(_tell(redis.url, Word.STOP))
                thread.join(60)


async def _tell(url: str, word: Word) -> None:
    keys = await FleetKeys.open(url)
    await keys.change(word=word)
    await keys.close()
