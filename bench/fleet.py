"""A crawl shared by 1, 2 and 4 shards: repositories per second over hosts that take their time.

    python bench/fleet.py [--hosts 300] [--repos 20000] [--shards 1,2,4]

Every shard gets the same crew, small enough that it waits for hosts and not for the processor:
what is measured is whether shards add up. Ray, Redis, the archive and the simulated network share
this machine; the network is a process of its own, and its log is the judge of the gaps.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from clickhouse_front import ClickHouse, clickhouse_front
from fleet_run import crawl_with, dids_in_manifest, fleet_config, gaps_in, job_of, world_process
from program import trawlnet
from repos_run import Truth
from servers import redis_server
from trawlnet.engine.partition import bucket_of, owner_of
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.supervise import Seen
from trawlnet.net.lane import lane_of

RATE = 50.0  # Requests per second and host.


class Watch:
    """The instants at which the first and the last try were settled."""

    def __init__(self) -> None:
        self.first = 0.0
        self.last = 0.0
        self.settled = 0

    def look_at(self, seen: Seen) -> None:
        settled = sum(seen.counts.settled.values())
        if settled > self.settled:
            self.first = self.first or time.monotonic()
            self.last, self.settled = time.monotonic(), settled


def crawl(
    told: dict[str, Any],
    redis: str,
    tables: ClickHouse,
    folder: Path,
    shards: int,
    workers: int,
) -> Watch:
    rates = dict.fromkeys(("small_pds_rps", "default_pds_rps", "large_pds_rps"), RATE)
    mirror = {"clickhouse_address": tables.address, "clickhouse_password": tables.password}
    mirrored = trawlnet(
        *("repos", "plc", "-w", folder / "net", "--plc-url", told["plc"], "--allow-private-hosts"),
        *("--clickhouse-address", tables.address, "--plc-rps", 1000),
        TRAWLNET_REPOS_CLICKHOUSE_PASSWORD=tables.password,
    )
    assert mirrored.code == 0, mirrored.err
    config = fleet_config(
        told,
        redis,
        str(folder / "archive"),
        **rates,
        **mirror,
        relay=(),
        source="plc",
        workers=workers,
        part_seconds=2,
        part_size="16MB",
        shard_timeout=15,
    )
    watch = Watch()
    with ray_runtime("local", job_of(config, folder, gap=1.0 / RATE)) as runtime:
        asyncio.run(crawl_with(config, runtime, show=watch.look_at, shards=shards))
    return watch


def most(manifest: Path, shards: int) -> float:
    """How many times as fast so many shards can be, each with a crew of its own: a lane has one
    owner, so that the shard with the most repositories is the last to end."""
    loads: Counter[int] = Counter()
    for row in Truth.read(manifest).rows.values():
        if row["in_plc"] and row["archivable"]:
            loads[owner_of(bucket_of(lane_of(row["pds"])), shards)] += 1
    return loads.total() / max(loads.values())


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--hosts", type=int, default=300)
    given.add_argument("--repos", type=int, default=20_000)
    given.add_argument("--shards", default="1,2,4")
    given.add_argument("--seed", type=int, default=17)
    given.add_argument("--workers", type=int, default=8)
    given.add_argument("--latency", type=float, default=0.075)
    asked = given.parse_args()
    base = 0.0
    for shards in map(int, asked.shards.split(",")):
        with tempfile.TemporaryDirectory(prefix="trawlnet-bench-") as folder:
            base = measure(asked, shards, Path(folder), base)


def measure(asked: argparse.Namespace, shards: int, folder: Path, base: float) -> float:
    """Prints a line; gives the rate of one shard."""
    log = folder / "log"
    with (
        redis_server() as redis,
        clickhouse_front(folder / "tables") as tables,
        world_process(asked.seed, asked.repos, asked.hosts, log, asked.latency) as told,
    ):
        watch = crawl(told, redis.url, tables, folder, shards, asked.workers)
        found = dids_in_manifest(folder / "archive")
        everyone = Truth.read(Path(told["manifest"])).archivable(in_plc=True)
        ideal = most(Path(told["manifest"]), shards)
    whole = found.keys() == everyone.keys() and set(found.values()) == {1}
    gaps = [some for host, some in gaps_in(log).items() if host != "127.0.0.1"]
    short = sum(gap < 0.5 / RATE for gap in itertools.chain.from_iterable(gaps))
    seconds = max(watch.last - watch.first, 0.001)
    rate = watch.settled / seconds
    base = base or rate
    print(
        f"{shards} shards: {len(found):,} repos, {watch.settled:,} tasks in {seconds:.1f} s, "
        f"{rate:,.1f}/s, {rate / base:.2f}x of at most {ideal:.2f}x; "
        f"every repo once: {whole}; gaps under half of what is asked: {short}",
        flush=True,
    )
    return base


if __name__ == "__main__":
    main()
