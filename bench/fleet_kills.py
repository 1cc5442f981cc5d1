"""One crawl by a fleet on a Ray cluster, and twenty kills: what is lost, what is done twice?

    python bench/fleet_kills.py [--seed 5]

Shards, whole Ray nodes, Redis (append-only) and the way to the S3 server are killed in turn, each
time that something was settled since the last kill. moto's server holds its objects in memory, so
that a relay in front of it dies in its place.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import ray

from tests.crash.test_fleet_kill import Front, killable, settled_in
from tests.crash.test_fleet_ray import ray_cluster, raylet_of
from tests.support.fleet.run import (
    crawl_with,
    dids_in_manifest,
    fleet_config,
    job_of,
    world_process,
)
from tests.support.repos.run import Truth
from tests.support.servers import redis_server, s3_server
from trawlnet.archive.remote import remote
from trawlnet.fleet.ray import RayRuntime
from trawlnet.fleet.supervise import Seen

VICTIMS = ["shard"] * 8 + ["node"] * 3 + ["redis"] * 5 + ["s3"] * 4


class Killer:
    def __init__(self, seed: int, redis: Any, front: Front, cluster: Any) -> None:
        self._rng = random.Random(seed)
        self._redis, self._front, self._cluster = redis, front, cluster
        self._head = cluster.head_node.all_processes["raylet"][0].process.pid
        self._shards: Mapping[int, Mapping[str, Any]] = {}
        self.left = self._rng.sample(VICTIMS, len(VICTIMS))

    def look_at(self, seen: Seen) -> None:
        self._shards = seen.shards

    async def kill(self) -> None:
        enough = 0
        while self.left:
            await asyncio.sleep(0.1)
            settled = settled_in(self._redis)
            if settled > enough and await self._kill_one(self.left[-1]):
                print(f"{settled:>6} settled: killed {self.left.pop()}", flush=True)
                enough = settled + self._rng.randint(0, 15)

    async def _kill_one(self, victim: str) -> bool:
        if victim == "redis":
            self._redis.kill()
            await asyncio.sleep(self._rng.uniform(0, 1))
            self._redis.start()
            return True
        if victim == "s3":
            self._front.kill()
            await asyncio.sleep(self._rng.uniform(0, 1))
            self._front.start()
            return True
        pids = [row["pid"] for row in self._shards.values() if Path(f"/proc/{row['pid']}").exists()]
        if victim == "node":
            pids = [raylet_of(pid) for pid in pids if raylet_of(pid) != self._head]
        if not pids:
            return False
        os.kill(self._rng.choice(pids), signal.SIGKILL)
        if victim == "node":
            self._cluster.add_node(num_cpus=1)
        return True


async def crawl(
    seed: int, folder: Path, told: dict[str, Any], redis: Any, s3: Any, front: Front, cluster: Any
) -> None:
    url = f"{s3.make_bucket('archive')}/all"
    options = s3.options | {"endpoint": f"http://127.0.0.1:{front.port}"}
    config = fleet_config(told, redis.url, url, workers=2, attempts=12, shard_timeout=3)
    runtime = RayRuntime(ray, job_of(config, folder, options))
    killer = Killer(seed, redis, front, cluster)
    killing = asyncio.create_task(killer.kill())
    await crawl_with(config, runtime, options, show=killer.look_at, shards=3)
    killing.cancel()
    found = dids_in_manifest(remote(url, s3.options))
    every = Truth.read(Path(told["manifest"])).archivable(on_relay=True)
    print(
        f"{len(VICTIMS) - len(killer.left)} kills; in the manifest: {len(found):,} of "
        f"{len(every):,} repos, none else: {found.keys() == every.keys()}, "
        f"each once: {set(found.values()) == {1}}"
    )


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--seed", type=int, default=5)
    seed = given.parse_args().seed
    with tempfile.TemporaryDirectory(prefix="trawlnet-kills-") as name:
        folder = Path(name)
        with (
            redis_server() as redis,
            s3_server() as s3,
            killable(s3) as front,
            world_process(19, 2500, 20, folder / "log", latency=0.1) as told,
            ray_cluster(2) as cluster,
        ):
            asyncio.run(crawl(seed, folder, told, redis, s3, front, cluster))
        asked = [json.loads(line)["path"] for line in (folder / "log").read_text().splitlines()]
    times = Counter(path for path in asked if "getRepo" in path)
    again = sum(times.values()) - len(times)
    print(f"{sum(times.values()):,} requests for repositories, {again:,} of them asked before")


if __name__ == "__main__":
    main()
