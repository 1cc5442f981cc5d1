"""The embedded store: one LMDB environment in a folder, and one thread that owns it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import lmdb

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, LaneWork, Lease, Page, Store
from trawlnet.engine.threads import Threads
from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.batch import Batch
from trawlnet.stores.lmdb.growth import with_room
from trawlnet.stores.lmdb.leases import Leases
from trawlnet.stores.lmdb.rows import failed_prefix
from trawlnet.stores.lmdb.tables import LmdbTables, look_at, open_environment, open_tables
from trawlnet.stores.lmdb.view import FailureChunk, View

T = TypeVar("T")

FIRST_MAP_BYTES: Final = 64 << 20  # Address space, not disk; doubled whenever it is full.
# LMDB reports a write that a full disk cut short as an input/output error.
_DISK_TROUBLES: Final = tuple(
    os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
)
_NUMBERS_CACHED: Final = 65_536  # Cached lane numbers.


class LmdbStore:
    """Made by `await LmdbStore.open(folder)`. Only one process at a time may use a folder: leases
    are in its memory, so that after a crash all unsettled tasks are open."""

    def __init__(self, path: Path, remember_done: bool) -> None:
        self._path = path
        self._remember_done = remember_done
        # One thread: a sync never blocks the event loop, and nothing below needs a lock.
        self._thread = Threads(1, "lmdb")
        self._leases = Leases()
        self._numbers: dict[str, bytes] = {}
        self._environment: Any = None
        self._tables: LmdbTables

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        remember_done: bool = True,
        map_size: int = FIRST_MAP_BYTES,
        look: bool = False,
    ) -> LmdbStore:
        """`remember_done=False` forgets a key once it has succeeded: for sources whose cursor
        alone prevents that a key is listed twice. `look` opens the store for reading, until the
        first write."""
        store = cls(path, remember_done)
        try:
            await store._call(lambda: store._look(map_size) if look else store._open(map_size))
        except StoreError:
            await store.close()
            raise
        return store

    async def cursor(self) -> str | None:
        return await self._read(View.cursor)

    async def feed(self, page: Page) -> int:
        def change(batch: Batch) -> int:
            batch.save_cursor(page.cursor)
            return sum([batch.add(task) for task in page.tasks])

        return await self._write(change)

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        return await self._read(lambda view: view.lanes(after, limit))

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        return await self._read(lambda view: view.lease(wants, now, now + ttl))

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        await self._read(lambda view: view.renew(keys, now + ttl))

    async def settle(self, receipts: Sequence[Receipt[object]]) -> None:
        def change(batch: Batch) -> None:
            for receipt in receipts:
                batch.settle(receipt)

        await self._write(change)

    async def hold(self, lane: str, until: float) -> None:
        await self._write(lambda batch: batch.hold(lane, until))

    async def holds(self, now: float) -> Mapping[str, float]:
        return await self._read(lambda view: view.holds(now))

    async def counts(self) -> Counts:
        return await self._read(View.counts)

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        prefix = failed_prefix(reason)
        async for failure in self._chunks(lambda view, after: view.failed(prefix, after)):
            yield failure
        if reason in (None, Reason.BLOCKED):
            for lane in await self._read(View.blocked_lanes):
                for queue in (self._tables.ready, self._tables.later):
                    async for failure in self._chunks(_open_on(queue, lane)):
                        yield failure

    async def retry(self, reason: Reason | None = None) -> int:
        def change(batch: Batch) -> int:
            # Blocked lanes first: keys reopened on them must not be counted twice.
            blocked = batch.reopen_blocked() if reason in (None, Reason.BLOCKED) else 0
            return blocked + batch.reopen_failed(reason)

        return await self._write(change)

    async def retry_keys(self, failures: Sequence[Failure]) -> list[str]:
        return await self._write(lambda batch: batch.reopen_keys(failures))

    async def close(self) -> None:
        await self._call(self._close)
        self._thread.shutdown(wait=False)

    async def _chunks(self, read: Callable[[View, bytes], FailureChunk]) -> AsyncIterator[Failure]:
        """A long listing in short transactions, so that it does not block a crawl."""
        after: bytes | None = b""
        while after is not None:
            chunk = await self._read(partial(_beyond, after, read))
            for failure in chunk.failures:
                yield failure
            after = chunk.last

    async def _read(self, look: Callable[[View], T]) -> T:
        def run() -> T:
            with self._environment.begin() as txn:
                return look(View(txn, self._tables, self._leases))

        return await self._call(run)

    async def _write(self, change: Callable[[Batch], T]) -> T:
        def run() -> T:
            if self._environment.flags()["readonly"]:
                self._environment.close()
                self._environment = None
                self._open(FIRST_MAP_BYTES)
            with self._environment.begin(write=True) as txn:
                batch = Batch(txn, self._tables, self._leases, self._numbers, self._remember_done)
                result = change(batch)
                batch.finish()
            # Memory is updated only after the commit.
            self._follow(batch)
            return result

        return await self._call(run)

    async def _call(self, run: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._thread, lambda: with_room(lambda: self._environment, run)
            )
        except lmdb.Error as error:
            raise _trouble(error, self._path) from error

    def _look(self, map_size: int) -> None:
        found = look_at(self._path)
        if found is None:
            self._open(map_size)
        else:
            self._environment, self._tables = found

    def _open(self, map_size: int) -> None:
        if self._environment is None:
            self._environment = open_environment(self._path, map_size)
        self._tables = open_tables(self._environment, self._path)

    def _follow(self, batch: Batch) -> None:
        for key_digest, lane in batch.ended.items():
            self._leases.end(lane, key_digest)
        if len(self._numbers) > _NUMBERS_CACHED:
            self._numbers.clear()
        self._numbers.update(batch.met)

    def _close(self) -> None:
        self._leases.clear()
        if self._environment is not None:
            self._environment.close()


def _beyond(after: bytes, read: Callable[[View, bytes], FailureChunk], view: View) -> FailureChunk:
    return read(view, after)


def _open_on(queue: Any, lane: bytes) -> Callable[[View, bytes], FailureChunk]:
    return lambda view, after: view.open_on(queue, lane, after)


def _trouble(error: lmdb.Error, path: Path) -> StoreError:
    if isinstance(error, lmdb.DiskError) or any(word in str(error) for word in _DISK_TROUBLES):
        return StoreError(
            f"the disk of {path} is full or failing: {error}",
            "free some space and start again: everything confirmed so far is kept",
        )
    return StoreError(
        f"the store in {path} cannot be read or written: {error}",
        "check the folder and start again: everything confirmed so far is kept",
    )


if TYPE_CHECKING:
    _STORE: type[Store[object]] = LmdbStore
