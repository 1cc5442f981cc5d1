"""Scanning many PDSes: requests and time of a first scan and of an idle rescan, beside brute force.

    .venv/bin/python bench/pds.py [--pdses 3000] [--repos 8] [--lanes 64] [--by-collection 0.03]

A world in a process of its own: each PDS on a loopback address, a few repos with records of the
preset in each. Brute force is what one would write first: list the repos, then ask each of them for
each of the five collections. It goes through the same Http with as many PDSes at a time, checks
nothing and stores nothing, so that its time is flattered; ours writes to SQLite with a synced
commit per page. No rate is kept, or it would all be waiting: what ten requests a minute mean is
worked out from the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import orjson
import uvloop

from tests.support.pds.scan import COMMENT, EPRINT, LEASE, LIKE, TAG, bench_for, claim, write
from tests.support.pds.sim_model import SimPds
from tests.support.pds.sim_world import serve_pdses
from trawlnet.crawlers.pds.scanning.scan import scan_pds
from trawlnet.engine.rules import Manners
from trawlnet.net.client.answer import Response
from trawlnet.sim.serve import loopback_hosts

SCHOLARS = 0.05  # Share of the repos.
NO_RATE = Manners(rate=float("inf"), concurrency=4)
PER_MINUTE = 10.0
COLLECTIONS = (
    *("pub.chive.eprint.submission", "pub.chive.review.comment"),
    *("pub.chive.review.endorsement", "pub.chive.eprint.userTag", "pub.chive.eprint.tag"),
)


def made_world(pdses: int, repos: int, by_collection: float) -> list[SimPds]:
    """Most PDSes are small and a few are large, around the mean."""
    dice = random.Random(pdses)
    world = [SimPds(address) for address in loopback_hosts(pdses, 5000)]
    for place, pds in enumerate(world):
        pds.lists_by_collection = dice.random() < by_collection
        for number in range(max(1, min(900, int(dice.expovariate(1 / repos)) + 1))):
            repo = pds.repo(f"{place}/{number}")
            write(repo, LIKE, 1)
            if dice.random() < SCHOLARS:
                write(repo, EPRINT, 1 + dice.randrange(5))
                write(repo, COMMENT, 1)
                write(repo, TAG, 1)
    return world


def serve(told: Connection, pdses: int, repos: int, by_collection: float) -> None:
    async def run() -> None:
        made = made_world(pdses, repos, by_collection)
        world = await serve_pdses(made)
        records = sum(
            len(rows)
            for pds in made
            for repo in pds.repos.values()
            for name, rows in repo.records.items()
            if name in COLLECTIONS
        )
        told.send(
            {
                "plc": world.plc,
                "urls": [world.url(pds) for pds in made],
                "repos": sum(len(pds.repos) for pds in made),
                "records": records,
            }
        )
        while True:
            await asyncio.to_thread(told.recv)
            told.send(sum(world.requests(pds) for pds in made))

    uvloop.run(run())


@dataclass(frozen=True)
class Figure:
    what: str
    requests: int
    seconds: float
    records: int


async def timed(
    what: str,
    urls: list[str],
    lanes: int,
    visit: Callable[[str], Awaitable[int]],
    asked: Callable[[], int],
) -> Figure:
    """Visits every PDS, so many at a time; requests are as the servers count them."""
    left, records, before = list(urls), 0, asked()
    begun = time.perf_counter()

    async def worker() -> None:
        nonlocal records
        while left:
            found = await visit(left.pop())
            records += found

    async with asyncio.TaskGroup() as group:
        for _ in range(lanes):
            group.create_task(worker())
    return Figure(what, asked() - before, time.perf_counter() - begun, records)


async def measure(told: dict[str, object], lanes: int, asked: Callable[[], int]) -> list[Figure]:
    urls: list[str] = told["urls"]  # type: ignore[assignment]
    with tempfile.TemporaryDirectory(prefix="trawlnet-bench-") as folder:
        world = SimpleNamespace(plc=told["plc"])
        async with bench_for(world, Path(folder) / "registry.db", NO_RATE) as made:
            http = made.parts.http

            async def get(url: str) -> dict[str, list[dict[str, str]]]:
                answer = await http.get(url)
                assert isinstance(answer, Response) and answer.status == 200, answer
                return orjson.loads(answer.body)

            async def brute(url: str) -> int:
                found = 0
                async for repo in pages(
                    get, f"{url}/xrpc/com.atproto.sync.listRepos?limit=1000", "repos"
                ):
                    for collection in COLLECTIONS:
                        records = (
                            f"{url}/xrpc/com.atproto.repo.listRecords"
                            f"?repo={repo['did']}&collection={collection}&limit=100"
                        )
                        found += len([one async for one in pages(get, records, "records")])
                return found

            async def scan(url: str) -> int:
                deadline = made.parts.clock.now() + 600.0
                await claim(made.db, url)
                result = await scan_pds(made.parts, url, lease=LEASE, deadline=deadline)
                assert result.complete, result
                return result.held_total

            return [
                await timed("first scan", urls, lanes, scan, asked),
                await timed("idle rescan", urls, lanes, scan, asked),
                await timed("brute force, each time", urls, lanes, brute, asked),
            ]


async def pages(get, url, what):  # type: ignore[no-untyped-def]
    cursor = ""
    while True:
        page = await get(url + (f"&cursor={cursor}" if cursor else ""))
        for row in page[what]:
            yield row
        cursor = page.get("cursor", "")
        if not cursor or not page[what]:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pdses", type=int, default=3000)
    parser.add_argument("--repos", type=int, default=8, help="mean per PDS")
    parser.add_argument("--lanes", type=int, default=64, help="PDSes at a time")
    parser.add_argument("--by-collection", type=float, default=0.03, help="share of the PDSes")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    world = (theirs, given.pdses, given.repos, given.by_collection)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=world, daemon=True)
    server.start()
    told = ours.recv()

    def asked() -> int:
        ours.send(None)
        return ours.recv()

    try:
        figures = uvloop.run(measure(told, given.lanes, asked))
    finally:
        server.terminate()
    wrong = [figure for figure in figures if figure.records != told["records"]]
    if wrong:
        raise SystemExit(f"{told['records']} records are there: {wrong}")
    if given.json:
        print(json.dumps([vars(figure) for figure in figures]))
        return
    print(f"{given.pdses} PDSes, {told['repos']} repos, {told['records']} records")
    print(f"{'':24}{'requests':>10}{'per PDS':>9}{'seconds':>9}{'minutes at 10/min':>19}")
    for figure in figures:
        each, polite = figure.requests / given.pdses, polite_seconds(figure, given)
        row = f"{figure.requests:>10}{each:>9.1f}{figure.seconds:>9.1f}{polite / 60:>19.1f}"
        print(f"{figure.what:24}{row}")


def polite_seconds(figure: Figure, given: argparse.Namespace) -> float:
    """For all PDSes, so many at a time: every request to one waits for the last, but the first."""
    waits = (figure.requests - given.pdses) * 60.0 / PER_MINUTE / given.lanes
    return max(figure.seconds, waits)


if __name__ == "__main__":
    main()
