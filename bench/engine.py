"""What the engine costs: CPU per settled task, per known key that is found again, and memory.

Ours over three stores, and as a peer the queue that people usually write themselves: one SQLite
table in WAL mode with a lease column, with the same batches. Interleaved, median of five.

    python bench/engine.py            about two minutes
    python bench/engine.py --full     the memory curve up to ten million keys: about half an hour
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import resource
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.servers import redis_server
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason, Receipt
from trawlnet.engine.ports import Ledger, Page
from trawlnet.engine.rules import Manners
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.stores.lmdb.store import LmdbStore
from trawlnet.stores.memory import MemoryStore
from trawlnet.stores.open import open_store

RUNS = 5
TASKS = 20_000
KNOWN = 100_000
LANES = 200
BATCH = 256


def cpu() -> float:
    """CPU seconds of this process, all threads, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def tasks(count: int, first: int = 0) -> list[Task]:
    return [
        Task(f"did:plc:{n:024}", f"pds{n % LANES}.example", {"n": n})
        for n in range(first, first + count)
    ]


class Pages:
    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        for first in range(0, TASKS, 1000):
            yield Page(tasks(1000, first), str(first))


class Nowhere:
    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        pass


async def done(task: Task) -> Outcome:
    return Outcome(Reason.OK, items=(task.key,))


async def settle_all(store: Ledger) -> float:
    """Microseconds of CPU per task through the whole engine: feed, lease, work, settle."""
    clock = SystemClock()
    gate = Gate(clock, Manners(rate=math.inf, concurrency=8))
    before = cpu()
    parts = Parts(Feed(Pages(), store), store, done, Nowhere(), gate, clock)
    await crawl(parts, Limits(), Control(256))
    spent = cpu() - before
    assert (await store.counts()).settled[Reason.OK] == TASKS
    return spent / TASKS * 1e6


async def settle_bare(store: Ledger) -> float:
    """The store alone, without the engine around it: feed, lease and settle in batches."""
    before = cpu()
    for first in range(0, TASKS, 1000):
        await store.feed(Page(tasks(1000, first), str(first)))
    wants = {f"pds{n}.example": math.ceil(BATCH / LANES) for n in range(LANES)}
    while leased := (await store.lease(wants, 1.0, 60.0)).tasks:
        await store.settle([Receipt(task, Reason.OK) for task in leased])
    return (cpu() - before) / TASKS * 1e6


async def find_known(store: Ledger) -> float:
    """Microseconds of CPU per key that is found though the store knows it."""
    known = tasks(KNOWN)
    await store.feed(Page(known, "known"))
    receipts = []
    for at in range(0, KNOWN, 30):
        page = Task(f"page:{at}", "pages")
        receipts.append(Receipt(page, Reason.OK, found=known[at : at + 30]))
    await store.feed(Page([receipt.task for receipt in receipts], "pages"))
    bare = [Receipt(receipt.task, receipt.reason) for receipt in receipts[: len(receipts) // 2]]
    full = receipts[len(receipts) // 2 :]
    plain = await timed(lambda: in_batches(store, bare))
    found = await timed(lambda: in_batches(store, full))
    return (found / len(full) - plain / len(bare)) / 30 * 1e6


async def in_batches(store: Ledger, receipts: Sequence[Receipt]) -> None:
    for at in range(0, len(receipts), BATCH):
        await store.settle(receipts[at : at + BATCH])


async def timed(work: Callable[[], Awaitable[None]]) -> float:
    before = cpu()
    await work()
    return cpu() - before


def sqlite_settle_all(folder: Path) -> float:
    """The peer: insert-or-ignore, lease a batch, mark it done; one transaction per batch. It has
    no lanes, no due times, no counts and no discoveries."""
    db = sqlite3.connect(folder / "queue.db", isolation_level=None)
    db.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE task(key TEXT PRIMARY KEY, lane TEXT, payload TEXT, due REAL, leased REAL,"
        " done INT);"
        "CREATE INDEX ready ON task(done, leased, lane);"
    )
    before = cpu()
    for first in range(0, TASKS, 1000):
        rows = [(t.key, t.lane, '{"n":1}', 0.0, 0.0, 0) for t in tasks(1000, first)]
        db.execute("BEGIN")
        db.executemany("INSERT OR IGNORE INTO task VALUES(?,?,?,?,?,?)", rows)
        db.execute("COMMIT")
    while True:
        now = time.time()
        db.execute("BEGIN IMMEDIATE")
        rows = db.execute(
            "UPDATE task SET leased=? WHERE key IN (SELECT key FROM task WHERE done=0 AND leased<?"
            " LIMIT ?) RETURNING key, lane, payload",
            (now + 60, now, BATCH),
        ).fetchall()
        db.execute("COMMIT")
        if not rows:
            break
        db.execute("BEGIN IMMEDIATE")
        db.executemany("UPDATE task SET done=1 WHERE key=?", [(row[0],) for row in rows])
        db.execute("COMMIT")
    spent = cpu() - before
    db.close()
    return spent / TASKS * 1e6


def anonymous_bytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    return 0


async def remember(folder: Path, sizes: Sequence[int]) -> list[tuple[int, float, float, float]]:
    """(keys, MB of anonymous memory, bytes on disk per key, µs per known key) as keys grow."""
    store = await LmdbStore.open(folder / "many")
    rows, have = [], 0
    for size in sizes:
        while have < size:
            page = tasks(min(5000, size - have), have)
            await store.feed(Page(page, str(have)))
            await store.settle([Receipt(task, Reason.OK) for task in page])
            have += len(page)
        probing = Task(f"probe:{size}", "l")
        await store.feed(Page([probing], str(have)))
        probe = [Receipt(probing, Reason.OK, found=tasks(3000, size // 2))]
        spent = await timed(lambda probe=probe: store.settle(probe))
        disk = (folder / "many" / "data.mdb").stat().st_blocks * 512 / size
        rows.append((size, anonymous_bytes() / 1e6, disk, spent / 3000 * 1e6))
    await store.close()
    return rows


async def ours(kind: str, folder: Path, url: str) -> Ledger:
    if kind == "memory":
        return MemoryStore()
    if kind == "lmdb":
        return await open_store(folder / "lmdb")
    return await open_store(url, prefix=f"bench:{time.monotonic_ns()}:")


def measure(kind: str, url: str, work: Callable[[Ledger], Awaitable[float]]) -> float:
    async def main() -> float:
        folder = Path(tempfile.mkdtemp(prefix="trawlnet-bench-"))
        try:
            store = await ours(kind, folder, url)
            figure = await work(store)
            await store.close()
            return figure
        finally:
            shutil.rmtree(folder)

    return asyncio.run(main())


def measure_peer() -> float:
    with tempfile.TemporaryDirectory(prefix="trawlnet-bench-") as folder:
        return sqlite_settle_all(Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="memory curve up to 10 million keys")
    full = parser.parse_args().full
    kinds = ("memory", "lmdb", "redis")
    settled: dict[str, list[float]] = {kind: [] for kind in kinds}
    bare: dict[str, list[float]] = {kind: [] for kind in (*kinds, "sqlite queue (peer)")}
    known: dict[str, list[float]] = {kind: [] for kind in kinds}
    with redis_server() as server:
        for _ in range(RUNS):
            for kind in kinds:
                settled[kind].append(measure(kind, server.url, settle_all))
                bare[kind].append(measure(kind, server.url, settle_bare))
                known[kind].append(measure(kind, server.url, find_known))
            bare["sqlite queue (peer)"].append(measure_peer())
    print(f"load average {os.getloadavg()[0]:.1f}; median of {RUNS} (min-max), interleaved")
    print("\nCPU per settled task, whole engine, µs (Redis: the client's side)")
    report(settled)
    print("\nCPU per settled task, the store alone, µs")
    report(bare)
    print("\nCPU per known key found again, µs")
    report(known)
    print("\nkeys remembered (LMDB)   anonymous MB   disk bytes/key   µs per known key")
    sizes = [10_000, 100_000, 1_000_000] + ([10_000_000] if full else [])
    with tempfile.TemporaryDirectory(prefix="trawlnet-bench-") as folder:
        for keys, memory, disk, spent in asyncio.run(remember(Path(folder), sizes)):
            print(f"{keys:>23,}   {memory:>12.1f}   {disk:>14.0f}   {spent:>16.2f}")


def report(figures: dict[str, list[float]]) -> None:
    for name, values in figures.items():
        middle = statistics.median(values)
        print(f"  {name:<22}{middle:>8.1f}   ({min(values):.1f}-{max(values):.1f})")


if __name__ == "__main__":
    main()
