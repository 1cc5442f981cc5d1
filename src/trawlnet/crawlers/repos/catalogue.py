"""What the archive holds: the rev of every repository in it, kept for quick looks beside it.

Everything here can be read from the segments again, and is, as far as it was not written down
before a crash. A repository costs about 100 bytes of disk.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from trawlnet.archive.blocks import FoundBlock, walk
from trawlnet.archive.format import rca
from trawlnet.archive.reader import open_segment
from trawlnet.archive.tombstones import NAME, read_tombstones
from trawlnet.engine.ports import Clock
from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.notes import (
    KEY_MAX,
    LmdbNotes,
    count_notes,
    known_notes,
    note_values,
    notes_in,
)

log = logging.getLogger(__name__)

_NOTHING: Mapping[str, Mapping[str, int]] = MappingProxyType({})
_PENDING = 4096  # Changes that are written down together,
_WRITE_EVERY = 30.0  # or what has come in so many seconds: `status` reads what is written.
_LOOKUPS_AT_ONCE = 2000  # Then others may run: a page of DIDs is long.
TABLE = "revs"
DROPS = "drops"
_SEGMENTS = "segments"


class ArchiveCatalogue:
    """To be made when nobody writes to the archive, and told about everything written later."""

    def __init__(self, notes: LmdbNotes, archive: Path, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock
        self._written_at = -math.inf
        self._archive = archive
        self._revs = notes.table(TABLE)
        self._segments = notes.table(_SEGMENTS)
        self._drops = notes.table(DROPS)
        self._pending: dict[str, str] = {}  # Empty: gone.
        self._left_out: dict[str, Mapping[str, int]] = {}
        self._writing: dict[str, str] = {}

        self._catch_up()

    def rev(self, did: str) -> str | None:
        return self._look(partial(self._notes.get, self._revs), did)

    async def revs(self, dids: Iterable[str]) -> dict[str, str]:
        """Of those that are in the archive."""
        found: dict[str, str] = {}
        everyone = list(dids)
        for start in range(0, len(everyone), _LOOKUPS_AT_ONCE):
            with self._notes.reading(self._revs) as txn:
                for did in everyone[start : start + _LOOKUPS_AT_ONCE]:
                    if (rev := self._look(txn.get, did)) is not None:
                        found[did] = rev
            await asyncio.sleep(0)
        return found

    def between(self, after: str, last: str) -> Iterator[str]:
        """Archived DIDs beyond `after`, up to and with `last`."""
        with self._notes.reading(self._revs) as txn:
            cursor = txn.cursor()
            found = cursor.set_range(after.encode() + b"\0")
            while found and cursor.key() <= last.encode():
                did = cursor.key().decode()
                if self._look(txn.get, did) is not None:
                    yield did
                found = cursor.next()

    async def note(
        self, changes: Mapping[str, str], left_out: Mapping[str, Mapping[str, int]] = _NOTHING
    ) -> None:
        """Repositories that were written, by their rev; an empty rev for one that is gone. And
        how many records of them were left out, by reason, for the report."""
        self._pending.update(changes)
        self._left_out.update(left_out)
        is_old = self._clock.now() - self._written_at >= _WRITE_EVERY
        if self._pending and not self._writing and (is_old or len(self._pending) >= _PENDING):
            self._written_at = self._clock.now()
            await asyncio.to_thread(self._write_down)

    def close(self) -> None:
        try:
            self._write_down()
        except StoreError as error:
            # What is not written down is read from the archive next time.
            log.warning("notes not written", extra={"error": str(error)})

    def _look(self, get: Callable[[bytes], Any], did: str) -> str | None:
        for recent in (self._pending, self._writing):
            if did in recent:
                return recent[did] or None
        key = did.encode()
        # A DID that is longer is simply not remembered.
        value = get(key) if len(key) <= KEY_MAX else None
        return None if value is None else value.decode()

    def _write_down(self) -> None:
        self._writing, self._pending = self._pending, {}
        left_out, self._left_out = self._left_out, {}
        # Measured before: what is written to them meanwhile is read again after a crash.
        ends: dict[str, Any] = {
            path.name: _end_of_blocks(path) for path in self._archive.glob("*.rca")
        }
        if (stones := self._archive / NAME).exists():
            ends[NAME] = stones.stat().st_size
        with self._notes.writing(self._revs) as txn:
            self._apply(txn, self._writing)
            # Of one that was changed by a delta, what was left out of it before still is.
            anew = {did for did, rev in self._writing.items() if not rev} | left_out.keys()
            for did in filter(_fits, anew):
                txn.delete(did.encode(), db=self._drops)
            for did, reasons in left_out.items():
                if reasons and _fits(did):
                    txn.put(did.encode(), msgspec.msgpack.encode(dict(reasons)), db=self._drops)
            for name, seen in ends.items():
                txn.put(name.encode(), msgspec.msgpack.encode(seen), db=self._segments)
        self._writing = {}

    def _apply(self, txn: Any, changes: Mapping[str, str]) -> None:
        for did, rev in changes.items():
            key = did.encode()
            if rev and len(key) <= KEY_MAX:
                txn.put(key, rev.encode(), db=self._revs)
            elif not rev:
                txn.delete(key, db=self._revs)

    def _catch_up(self) -> None:
        """Read what was added to the archive since it was last written down."""
        with self._notes.writing(self._revs) as txn:
            stones = dict(self._new_tombstones(txn))
            for path in sorted(self._archive.glob("*.rca")):
                self._apply(txn, self._new_revs(txn, path, stones))
            # What is left in there is newer than any block of its DID.
            self._apply(txn, dict.fromkeys(stones, ""))

    def _new_tombstones(self, txn: Any) -> Iterator[tuple[str, int]]:
        path = self._archive / NAME
        size = path.stat().st_size if path.exists() else 0
        seen = txn.get(NAME.encode(), db=self._segments)
        if seen is None or msgspec.msgpack.decode(seen) != size:
            yield from ((stone.did, stone.at_us) for stone in read_tombstones(self._archive))
            txn.put(NAME.encode(), msgspec.msgpack.encode(size), db=self._segments)

    def _new_revs(self, txn: Any, path: Path, stones: dict[str, int]) -> dict[str, str]:
        created, end = _end_of_blocks(path)
        packed = txn.get(path.name.encode(), db=self._segments)
        seen = msgspec.msgpack.decode(packed) if packed else (created, 0)
        # A file of the same name with another birthday is another file.
        start = max(rca.HEADER_SIZE, seen[1] if seen[0] == created else 0)
        is_compacted = start > rca.HEADER_SIZE and not _is_block_end(path, start, end)
        if stones or is_compacted:
            start = rca.HEADER_SIZE  # Which came first, the block or the stone?
        revs = {}
        for head in _heads_in(path, start, end):
            # What was compacted is known, and perhaps from a later segment.
            known = txn.get(head.did.encode()) if is_compacted and _fits(head.did) else None
            if known is None or known.decode() < head.rev:
                revs[head.did] = head.rev
            if stones.get(head.did, head.crawled_at_us) < head.crawled_at_us:
                del stones[head.did]
        txn.put(path.name.encode(), msgspec.msgpack.encode((created, end)), db=self._segments)
        return revs


def _fits(did: str) -> bool:
    return len(did.encode()) <= KEY_MAX


def count_archived(notes: Path, archive: Path) -> int:
    """Repositories in the archive, also those of a crawl that was killed before it noted them.
    Read while a crawl may be writing: what it adds meanwhile is not counted."""
    ends = {
        name.decode(): msgspec.msgpack.decode(seen) for name, seen in notes_in(notes, _SEGMENTS)
    }
    recent: set[str] = set()
    for path in sorted(archive.glob("*.rca")):
        created, end = _end_of_blocks(path)
        seen = ends.get(path.name, (created, 0))
        start = max(rca.HEADER_SIZE, seen[1] if seen[0] == created else 0)
        if start > rca.HEADER_SIZE and not _is_block_end(path, start, end):
            start = rca.HEADER_SIZE
        if start < end:
            recent.update(head.did for head in _heads_in(path, start, end))
    known = known_notes(notes, TABLE, [did.encode() for did in recent if _fits(did)])
    return count_notes(notes, TABLE) + len(recent) - len(known)


def left_out(workspace: Path) -> Counter[str]:
    """Records that the crawl of a workspace left out, by reason."""
    totals: Counter[str] = Counter()
    for packed in note_values(workspace / "state" / "repos" / "notes", DROPS):
        totals.update(msgspec.msgpack.decode(packed, type=dict[str, int]))
    return totals


def _end_of_blocks(path: Path) -> tuple[int, int]:
    """When the segment was begun, and where its blocks end as of now."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            header = rca.parse_header(file.read(rca.HEADER_SIZE), path)
        except rca.RcaError:
            return 0, rca.HEADER_SIZE  # Its damage is for `verify` to tell.
    return header.created_at_us, header.index_offset or size


def _is_block_end(path: Path, at: int, end: int) -> bool:
    """Whether blocks that were seen before end there still: a segment that was compacted is a file
    of the same name and birthday."""
    if at == end:
        return True
    if at > end:
        return False
    try:
        entries = open_segment(path).entries()
        return any(entry.offset == at for entry in entries)
    except rca.RcaError:
        return True  # Its damage is for `verify` to tell.


def _heads_in(path: Path, start: int, end: int) -> Iterator[rca.BlockHead]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for found in walk(fd, start, end, check=False):
            if isinstance(found, FoundBlock):
                yield found.head
    finally:
        os.close(fd)
