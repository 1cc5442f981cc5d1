"""A crawl shared by 1, 2 and 4 shards: repositories per second over hosts that take their time.

    python bench/fleet.py [--hosts 300] [--repos 20000] [--shards 1,2,4]

What is measured is whether shards add up. Every host takes `--latency` seconds for an answer, and
every shard has the same small crew, so that a shard gets no more than crew / latency done and waits
for hosts, not for the processor: with a crew as large as one would have otherwise, two cores would
be the limit of one shard and of four alike. `ideal` is what latency, crew and rates of hosts allow;
nobody can be faster, and the rest is the fleet's. Hosts are of different sizes and are given to
shards by a draw, with luck or without; a crawl from the mirror knows their sizes and evens that
out.

Ray (a head and two nodes, processes of their own), Redis, ClickHouse's engine, the archive and the
simulated network share this machine. One network and one mirror serve all runs, each of which has a
Redis and an archive of its own; the network builds each repository once, in the first run. Its log
is the judge of the gaps: one is too short if even the longest that it can have been is (see
`tests/support/fleet/run.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
# Ray gives its workers the lowest priority; here they compete with the network that they crawl.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray spells it so.

import ray

from tests.support.clickhouse_front import ClickHouse, clickhouse_front
from tests.support.fleet.ray_nodes import ray_cluster
from tests.support.fleet.run import (
    crawl_with,
    dids_in_manifest,
    fleet_config,
    gaps_in,
    job_of,
    world_process,
)
from tests.support.program import trawlnet
from tests.support.repos.run import Truth
from tests.support.servers import redis_server
from trawlnet.cli.repos.fleet import expected
from trawlnet.engine.partition import bucket_of
from trawlnet.fleet.balance import balanced
from trawlnet.fleet.plan import Assumptions, HostSize, forecast
from trawlnet.fleet.ray import RayRuntime
from trawlnet.fleet.supervise import Seen
from trawlnet.net.lane import lane_of

RATE = 50.0  # Requests per second and host.
NODES = 2  # Besides the head.
ROUNDING = 0.002  # Seconds; timers and stamps are no more exact.


@dataclass
class Watch:
    """The instants at which the first and the last task were settled, and what shards took."""

    first: float = 0.0
    last: float = 0.0
    settled: int = 0
    cpu: dict[int, float] = field(default_factory=dict)  # Seconds by process.

    def look_at(self, seen: Seen) -> None:
        settled = sum(seen.counts.settled.values())
        if settled > self.settled:
            self.first = self.first or time.monotonic()
            self.last, self.settled = time.monotonic(), settled
        for row in seen.shards.values():
            self.cpu[row["pid"]] = cpu_of(row["pid"]) or self.cpu.get(row["pid"], 0.0)

    @property
    def seconds(self) -> float:
        return max(self.last - self.first, 0.001)


def cpu_of(pid: int) -> float:
    """Seconds; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Bench:
    asked: argparse.Namespace
    folder: Path
    told: dict[str, Any]  # By the simulated network.
    tables: ClickHouse
    truth: Truth

    def mirror(self) -> None:
        done = trawlnet(
            *("repos", "plc", "-w", self.folder / "net", "--plc-url", self.told["plc"]),
            *("--allow-private-hosts", "--plc-rps", 1000),
            *("--clickhouse-address", self.tables.address),
            TRAWLNET_REPOS_CLICKHOUSE_PASSWORD=self.tables.password,
        )
        assert done.code == 0, done.err

    def crawl(self, shards: int, redis: str) -> Watch:
        place = self.folder / str(shards)
        config = fleet_config(
            self.told,
            redis,
            str(place / "archive"),
            **dict.fromkeys(("small_pds_rps", "default_pds_rps", "large_pds_rps"), RATE),
            clickhouse_address=self.tables.address,
            clickhouse_password=self.tables.password,
            relay=(),
            source="plc",
            workers=self.asked.workers,
            part_seconds=2,
            part_size="16MB",
            shard_timeout=15,
        )
        watch = Watch()
        runtime = RayRuntime(ray, job_of(config, place, gap=1.0 / RATE))

        async def crawl() -> None:
            loads = await expected(config, place)
            await crawl_with(config, runtime, show=watch.look_at, shards=shards, loads=loads)

        asyncio.run(crawl())
        return watch

    def ideal(self, shards: int, *, even: bool) -> float:
        """Seconds that it takes at least, as the draw shares hosts out or as evenly as can be."""
        places = (row["pds"] for row in self.truth.rows.values() if row["in_plc"])
        tasks = Counter(lane_of(pds) for pds in places if pds in self.truth.hosts)
        loads: Counter[int] = Counter()
        for lane, count in tasks.items():
            loads[bucket_of(lane)] += count
        given = Assumptions(RATE, RATE, RATE, 4, self.asked.workers, self.asked.latency)
        hosts = [HostSize(lane, count) for lane, count in tasks.items()]
        moved = balanced(loads, shards, ()) if even else ()
        return forecast(hosts, shards, given, moved).seconds

    def whole(self, shards: int) -> bool:
        found = dids_in_manifest(self.folder / str(shards) / "archive")
        return found == Counter(self.truth.archivable(in_plc=True).keys())


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--hosts", type=int, default=300)
    given.add_argument("--repos", type=int, default=20_000)
    given.add_argument("--shards", default="1,2,4")
    given.add_argument("--seed", type=int, default=17)
    given.add_argument("--workers", type=int, default=8, help="of one shard")
    given.add_argument("--latency", type=float, default=0.075)
    asked = given.parse_args()
    with tempfile.TemporaryDirectory(prefix="trawlnet-bench-") as name:
        folder = Path(name)
        with (
            clickhouse_front(folder / "tables") as tables,
            world_process(
                asked.seed, asked.repos, asked.hosts, folder / "log", asked.latency
            ) as told,
            ray_cluster(NODES),
        ):
            bench = Bench(asked, folder, told, tables, Truth.read(Path(told["manifest"])))
            bench.mirror()
            runs = list(map(int, asked.shards.split(",")))
            seconds: list[float] = []
            for shards in runs:
                seconds.append(measure(bench, shards))
                told_of(bench, runs[0], shards, seconds)
        gaps = gaps_in(folder / "log")
    short = sum(gap.most < 1.0 / RATE - ROUNDING for gap in gaps)
    print(f"of {len(gaps):,} gaps between requests to a host {short} were too short for certain")


def measure(bench: Bench, shards: int) -> float:
    """Prints what was done; gives the seconds."""
    begun = time.monotonic()
    with redis_server() as redis:
        watch = bench.crawl(shards, redis.url)
    per_task = sum(watch.cpu.values()) / max(watch.settled, 1) * 1000
    print(
        f"{shards} shards: {watch.settled:,} tasks in {watch.seconds:.1f} s, "
        f"{watch.settled / watch.seconds:,.1f}/s, from start to end {time.monotonic() - begun:.1f} "
        f"s; {per_task:.2f} ms of processor for a task; every repo once: {bench.whole(shards)}",
        flush=True,
    )
    return watch.seconds


def told_of(bench: Bench, first: int, shards: int, seconds: list[float]) -> None:
    drawn, even = (bench.ideal(shards, even=even) for even in (False, True))
    base = bench.ideal(first, even=True)
    print(
        f"  {seconds[0] / seconds[-1]:.2f}x of {first} shard; ideal {even:.1f} s, "
        f"{base / even:.2f}x ({base / drawn:.2f}x as the draw shares hosts out)",
        flush=True,
    )


if __name__ == "__main__":
    main()
