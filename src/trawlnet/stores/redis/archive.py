"""Figures about a growing archive in Redis, for other machines: its segment, its size, and the
processes that write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from trawlnet.engine.ports import Clock, Work
from trawlnet.stores.redis.work.store import RedisStore

_AT_ONCE = 2000  # Keys in one command.
_AT_WORK_EVERY = 5.0  # Seconds between two heartbeats of a process.
_AT_WORK_FOR = 20  # Seconds without a heartbeat after which a process counts as gone.


class ArchiveKeys:
    """`segment_num` and `stats`, beside the keys of the store. They count over all runs, and over
    all processes that share the crawl."""

    def __init__(self, store: RedisStore, segment: Callable[[], int | None]) -> None:
        self._store = store
        self._segment = segment
        self._untold = (0, 0)
        self._telling = asyncio.Lock()

    async def tell(self, repos: int, size: int) -> None:
        """Add to the durable totals. Of concurrent calls, one sends the sum for all."""
        self._untold = (self._untold[0] + repos, self._untold[1] + size)
        async with self._telling:
            (repos, size), self._untold = self._untold, (0, 0)
            if size:
                await self._send(repos, size)

    async def _send(self, repos: int, size: int) -> None:
        await self._store.ask("HINCRBY", "stats", "total_crawled", repos)
        await self._store.ask("HINCRBY", "stats", "bytes_written", size)
        if (number := self._segment()) is not None:
            await self._store.ask("SET", "segment_num", number)

    async def at_work(self, who: str, clock: Clock) -> None:
        """Send heartbeats while this runs; `status` reads them from other machines."""
        try:
            while True:
                await self._store.ask("SET", "running", who, "EX", _AT_WORK_FOR)
                await clock.sleep(_AT_WORK_EVERY)
        finally:
            await self._store.ask("DEL", "running")

    async def forget_done(self, keys: Sequence[str]) -> None:
        """Let the source list these settled keys again; failures stay."""
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            failed = await self._store.ask("HMGET", "details", *some)
            done = [key for key, row in zip(some, failed, strict=True) if row is None]
            if done:
                await self._store.ask("SREM", "completed", *done)

    async def read(self) -> dict[str, Any]:
        stats = await self._store.ask("HGETALL", "stats")
        who = await self._store.ask("GET", "running")
        return {
            "running_on": None if who is None else who.decode(),
            "total_crawled": int(stats.get(b"total_crawled", 0)),
            "bytes_written": int(stats.get(b"bytes_written", 0)),
            "segment_num": int(await self._store.ask("GET", "segment_num") or 0),
            "completed_count": int(await self._store.ask("SCARD", "completed")),
        }


def archive_keys(store: Work, segment: Callable[[], int | None]) -> ArchiveKeys | None:
    return ArchiveKeys(store, segment) if isinstance(store, RedisStore) else None


async def read_archive_keys(url: str) -> dict[str, Any]:
    store = await RedisStore.open(url)
    try:
        return await ArchiveKeys(store, lambda: 0).read()
    finally:
        await store.close()
