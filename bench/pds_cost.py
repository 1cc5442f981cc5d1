"""What a first scan costs this program: CPU time and transactions of a `pds crawl` of many PDSes.

    .venv/bin/python bench/pds_cost.py [--pdses 150] [--concurrency 64]

The world of bench/pds.py in a process of its own, crawled through the parts of the crawler itself,
without a pace, into SQLite. To compare two versions, run both in turns, and take medians.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "bench")]

import uvloop

from pds import serve
from trawlnet.crawlers.pds.build import Kit, crawl_parts
from trawlnet.crawlers.pds.config import PdsConfig, limits, manners
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.engine.gate import Gate
from trawlnet.net.agent import user_agent
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import open_registry
from trawlnet.tables.registry.rules import FoundPds, PdsSource
from trawlnet.tables.relational.database import Statement


async def measure(told: dict[str, Any], folder: Path, concurrency: int) -> str:
    mail, clock, urls = "mailto:bench@example.org", SystemClock(), told["urls"]
    config = PdsConfig(
        dids="",
        once=True,
        batch=len(urls),
        concurrency=concurrency,
        allow_private_hosts=True,
        requests_per_minute=60_000,
        contact=mail,
        max_records_per_pds=1_000_000,
    )
    registry = await open_registry(folder / "registry.db", Terms(True, len(urls)))
    db: Any = registry.db
    commit, commits = db._commit, 0

    def counted() -> None:
        nonlocal commits
        commits += 1
        commit()

    db._commit = counted
    await registry.register_many([FoundPds(url, PdsSource.RELAY) for url in urls], clock.now())
    gate = Gate(clock, replace(manners(config), rate=float("inf")))
    async with Http(gate, clock, user_agent(mail), guard=Guard(allow_private=True)) as http:
        kit = Kit(config, folder, registry, http, gate, clock, CrawlMetrics("pds", clock))
        kit = replace(kit, config=_resolving(config, told["plc"]))
        commits, cpu = 0, time.process_time()
        async with crawl_parts(kit) as parts:
            # Nothing is discovered: the rows are there.
            parts.feed.source._before = _nothing  # type: ignore[union-attr]
            await crawl(parts, limits(config), Control(concurrency))
        cpu, transactions = time.process_time() - cpu, commits
    ended = Statement("ended", "SELECT COUNT(*) FROM pds_registry WHERE last_scan_at IS NOT NULL")
    ((whole,),) = await registry.db.rows(ended)
    await registry.close()
    assert whole == len(urls), f"{whole} of {len(urls)} were scanned to the end"
    return f"{told['records']} records: {cpu:.3f} s of CPU time, {transactions} transactions"


def _resolving(config: PdsConfig, plc: str) -> PdsConfig:
    return config.model_copy(update={"plc_url": plc})


async def _nothing() -> str:
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pdses", type=int, default=150)
    parser.add_argument("--concurrency", type=int, default=64)
    given = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    world = (theirs, given.pdses, 8, 0.03)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=world, daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory(prefix="trawlnet-bench-") as folder:
            print(uvloop.run(measure(ours.recv(), Path(folder), given.concurrency)))
    finally:
        server.terminate()


if __name__ == "__main__":
    main()
