"""Which accounts each PDS is known to have: every DID counts once, however often it is named.

A host lists an account, its DID document names the host, a page is read again after a crash, a
listing repeats itself: all of that is one account. Only as many are told apart as matter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any, Final, Protocol

from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.notes import LmdbNotes

log = logging.getLogger(__name__)

ENOUGH: Final = 1000  # Accounts; a PDS with more is treated no differently.
_LANE_MAX: Final = 300  # Characters; no host has a longer name.
_PENDING: Final = 4096  # Accounts that are written down together.
_LANES_AT_ONCE: Final = 200  # Then others may run.
_DIGEST: Final = 8  # Bytes: two of a thousand accounts have the same once in 10^13 hosts.


class Residents(Protocol):
    """In the notes of one process, or in Redis for all shards of a crawl."""

    async def known(self) -> Mapping[str, int]:
        """How many accounts each lane has, as far as they were counted."""

    async def add(self, found: Mapping[str, Collection[str]]) -> Mapping[str, int]:
        """DIDs that are on these lanes. Returns how many each of the lanes has now."""

    async def begin(self, lane: str | None = None) -> None:
        """Forget who is on one lane, or on all: they are about to be named again."""


def digest_of(did: str) -> bytes:
    return blake2b(did.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


class NotedResidents:
    """In two tables: `sizes`, lane to number, and `residents`, a key for each lane and account.
    What a crash forgets makes the count too small, and a crawl slower."""

    def __init__(self, notes: LmdbNotes) -> None:
        self._notes = notes
        self._residents = notes.table("residents")
        self._sizes = notes.table("sizes")
        self._counts: dict[str, int] = {}
        self._pending: set[bytes] = set()
        self._resized: set[str] = set()
        self._begun: set[bytes] = set()  # Lanes whose rows on disk no longer count.
        self._all_begun = False
        self._changing = asyncio.Lock()  # A thread may be writing it down.
        with notes.reading(self._sizes) as txn:
            for lane, count in txn.cursor():
                self._counts[lane.decode()] = int(count)

    async def known(self) -> Mapping[str, int]:
        return dict(self._counts)

    async def add(self, found: Mapping[str, Collection[str]]) -> Mapping[str, int]:
        async with self._changing:
            for number, (lane, dids) in enumerate(found.items(), 1):
                if len(lane) <= _LANE_MAX and self._counts.get(lane, 0) < ENOUGH:
                    self._add(lane, dids)
                if number % _LANES_AT_ONCE == 0:
                    await asyncio.sleep(0)
                if len(self._pending) >= _PENDING:
                    await asyncio.to_thread(self._write_down)
            return {lane: self._counts.get(lane, 0) for lane in found}

    async def begin(self, lane: str | None = None) -> None:
        async with self._changing:
            if lane is None:
                self._all_begun = True
                self._counts.clear()
                self._pending.clear()
                self._resized.clear()
            elif self._counts.pop(lane, 0):
                prefix = digest_of(lane)
                self._begun.add(prefix)
                self._resized.add(lane)
                self._pending = {row for row in self._pending if not row.startswith(prefix)}

    def close(self) -> None:
        try:
            self._write_down()
        except StoreError as error:
            log.warning("notes not written", extra={"error": str(error)})

    def _add(self, lane: str, dids: Collection[str]) -> None:
        prefix = digest_of(lane)
        on_disk = not self._all_begun and prefix not in self._begun
        with self._notes.reading(self._residents) as txn:
            for did in dids:
                row = prefix + digest_of(did)
                if row in self._pending or (on_disk and txn.get(row) is not None):
                    continue
                self._pending.add(row)
                self._counts[lane] = self._counts.get(lane, 0) + 1
                if self._counts[lane] >= ENOUGH:
                    break
        self._resized.add(lane)

    def _write_down(self) -> None:
        with self._notes.writing(self._residents) as txn:
            if self._all_begun:
                txn.drop(self._residents, delete=False)
                txn.drop(self._sizes, delete=False)
            for prefix in self._begun:
                _delete_all(txn, prefix)
            for row in self._pending:
                txn.put(row, b"")
            for lane in self._resized:
                if count := self._counts.get(lane, 0):
                    txn.put(lane.encode(), b"%d" % count, db=self._sizes)
                else:
                    txn.delete(lane.encode(), db=self._sizes)
        self._all_begun = False
        self._begun, self._pending, self._resized = set(), set(), set()


def _delete_all(txn: Any, prefix: bytes) -> None:
    cursor = txn.cursor()
    while cursor.set_range(prefix) and cursor.key().startswith(prefix):
        cursor.delete()
