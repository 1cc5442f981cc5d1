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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from clickhouse_front import ClickHouse, clickhouse_front
from fleet_run import crawl_with, dids_in_manifest, fleet_config, gaps_in, job_of, world_process
from program import trawlnet
from repos_run import Truth
from servers import redis_server
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.supervise import Seen

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


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--hosts", type=int, default=300)
    given.add_argument("--repos", type=int, default=20_000)
    given.add_argument("--shards", default="1,2,4")
    given.add_argument("--workers", type=int, default=8)
    given.add_argument("--latency", type=float, default=0.075)
    asked = given.parse_args()
    base = 0.0
    for shards in map(int, asked.shards.split(",")):
        with (
            tempfile.TemporaryDirectory(prefix="trawlnet-bench-") as name,
            redis_server() as redis,
            clickhouse_front(Path(name) / "tables") as tables,
            world_process(17, asked.repos, asked.hosts, Path(name) / "log", asked.latency) as told,
        ):
            folder = Path(name)
            watch = crawl(told, redis.url, tables, folder, shards, asked.workers)
            found = dids_in_manifest(folder / "archive")
            everyone = Truth.read(Path(told["manifest"])).archivable(in_plc=True)
            whole = found.keys() == everyone.keys() and set(found.values()) == {1}
            gaps = gaps_in(folder / "log")
        rate = watch.settled / max(watch.last - watch.first, 0.001)
        base = base or rate
        every = itertools.chain.from_iterable(
            some for host, some in gaps.items() if host != "127.0.0.1"
        )
        short = sum(gap < 0.5 / RATE for gap in every)
        print(
            f"{shards} shards: {len(found):,} repos, {watch.settled:,} tasks in "
            f"{watch.last - watch.first:.1f} s, {rate:,.0f}/s, {rate / base:.2f}x; "
            f"every repo once: {whole}; gaps under half of what is asked: {short}",
            flush=True,
        )


if __name__ == "__main__":
    main()
