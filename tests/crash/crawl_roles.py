"""Crawls for the nursery: the right one, and three with an invariant broken on purpose."""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import trawlnet.engine.settle as settling
from trawlnet.captures.blobs import BlobStore
from trawlnet.captures.records import RecordSink
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.floor import Done, Floor
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason, Receipt
from trawlnet.engine.ports import Lease, Ledger, Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.stores.open import open_store

LANES = 20
PAGE = 20
EXPOSED = "exposed"


def roots_of(folder: Path) -> int:
    """How large the world is, as the test wrote it down."""
    return int((folder / "roots").read_text())


def expected(folder: Path) -> dict[str, Reason]:
    """Every key of the world with the word it must end on."""
    words: dict[str, Reason] = {}
    ahead = [f"root:{n}" for n in range(roots_of(folder))]
    while ahead:
        key = ahead.pop()
        if key in words:
            continue
        words[key] = Reason.NOT_FOUND if roll(key) % 23 == 0 else Reason.OK
        if words[key] is Reason.OK:
            ahead += children(key)
    return words


def children(key: str) -> list[str]:
    """Some roots lead to further keys, some of them to the same ones."""
    spread = roll(key) % 5
    return [f"child:{roll(f'{key}/{n}') % 500}" for n in range(max(0, spread - 2))]


def roll(key: str) -> int:
    return zlib.crc32(key.encode())


def body(key: str) -> bytes:
    return f"{key} ".encode() * (1 + roll(key) % 20)


class Numbers:
    def __init__(self, roots: int) -> None:
        self._roots = roots

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        for first in range(0 if after is None else int(after) + PAGE, self._roots, PAGE):
            keys = [f"root:{n}" for n in range(first, first + PAGE)]
            yield Page([task_of(key) for key in keys], str(first))
            await asyncio.sleep(0.002)


def task_of(key: str) -> Task:
    return Task(key, f"lane{roll(key) % LANES}", {"key": key})


async def handle(task: Task) -> Outcome:
    await asyncio.sleep(0.02)
    if task.attempt == 0 and roll(task.key) % 11 == 0:
        return Outcome(Reason.UNAVAILABLE)
    if roll(task.key) % 23 == 0:
        return Outcome(Reason.NOT_FOUND)
    found = [task_of(child) for child in children(task.key)]
    return Outcome(Reason.OK, items=[body(task.key)], found=found)


async def run(folder: Path, store: Ledger) -> None:
    clock = SystemClock()
    sink = RecordSink(BlobStore(folder / "blobs"), folder / "index.jsonl")
    gate = Gate(clock, Manners(rate=math.inf, concurrency=3, block_at=10_000))
    limits = Limits(high_water=100, lease=30.0, retry=RetryPolicy(base=0.01))
    feed = Feed(Numbers(roots_of(folder)), store)
    await crawl(Parts(feed, store, handle, sink, gate, clock), limits, Control(6))
    await store.close()


async def opened(folder: Path) -> Ledger:
    """The address of the store is in the folder: a Redis URL, or nothing for LMDB."""
    address = folder / "address"
    where = address.read_text() if address.exists() else str(folder / "state")
    return await open_store(where, owner="the only one")


async def sound(folder: Path) -> None:
    await run(folder, await opened(folder))


async def exposed(folder: Path) -> None:
    """Say that a kill would do harm now, and wait for it."""
    (folder / EXPOSED).touch()
    await asyncio.sleep(3600)


async def settle_first(folder: Path) -> None:
    """Breaks "settled implies durable": the store forgets, then the sink writes."""

    async def swapped(floor: Floor, batch: list[Done]) -> None:
        sink, held_back = floor.parts.sink, []

        class Later:
            async def write(self, written: object) -> None:
                held_back.append(written)

        object.__setattr__(floor.parts, "sink", Later())
        await right(floor, batch)
        object.__setattr__(floor.parts, "sink", sink)
        if any(held_back):
            await exposed(folder)

    right = settling.settle_batch
    settling.settle_batch = swapped  # type: ignore[assignment]
    await sound(folder)


class Wrapped:
    """A store with one habit changed."""

    def __init__(self, store: Ledger) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


async def cursor_first(folder: Path) -> None:
    """Breaks "a page and its cursor in one transaction": the cursor is saved before its page."""

    class CursorFirst(Wrapped):
        async def feed(self, page: Page) -> int:
            await self._store.feed(Page([], page.cursor))
            await exposed(folder)
            return await self._store.feed(page)

    await run(folder, CursorFirst(await opened(folder)))  # type: ignore[arg-type]


async def dequeue_deletes(folder: Path) -> None:
    """Breaks "dequeue is not delete": what is handed out is forgotten at once."""

    class Forgetful(Wrapped):
        async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
            lease = await self._store.lease(wants, now, ttl)
            await self._store.settle([Receipt(task, Reason.OK, at=now) for task in lease.tasks])
            if lease.tasks:
                await exposed(folder)
            return lease

    await run(folder, Forgetful(await opened(folder)))  # type: ignore[arg-type]


ROLES = {
    "sound": sound,
    "settle_first": settle_first,
    "cursor_first": cursor_first,
    "dequeue_deletes": dequeue_deletes,
}
