"""Replay archives into the table of records: segment by segment, in batches, resumable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.segment import Damage, Place, Segment, find_segments
from trawlnet.archive.tally import open_all
from trawlnet.crawlers.repos.replay_read import Filter, SegmentReader
from trawlnet.tables import records
from trawlnet.tables.ports import Tables
from trawlnet.tables.records import RecordBatch, RepoRow

_TOMBSTONES = "tombstones"  # Noted in place of a segment's name.


@dataclass(slots=True)
class Replayed:
    """What one run has done."""

    segments: int = 0
    skipped: int = 0  # Segments that were replayed before.
    repos: int = 0
    records: int = 0
    repeats: int = 0  # Repositories that were there before.
    removed: int = 0  # Repositories that a tombstone covers now.
    damage: list[Damage] = field(default_factory=list)
    untold: int = 0  # Damaged places beyond those that are listed.


class Replay:
    """`await Replay(...).run(place, workers)`; stopped by its event between two batches."""

    def __init__(
        self,
        tables: Tables,
        wanted: Filter,
        stop: asyncio.Event,
        progress: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._tables = tables
        self._wanted = wanted
        self._stop = stop
        self._progress = progress
        # Looking up who is known and noting who is new must not interleave.
        self._noting = asyncio.Lock()
        self.done = Replayed()

    async def run(self, place: Place, workers: int) -> None:
        """Raises NoArchive, TablesError; damage is noted, and the rest goes on."""
        segments = await asyncio.to_thread(open_all, find_segments(place), self.done.damage)
        stones = await asyncio.to_thread(load_tombstones, place)
        # Checked, so that a block which cannot be read does not hide an older one that can.
        census = await asyncio.to_thread(take_census, segments, stones, check=True)
        finished = await records.finished_segments(self._tables)
        waiting = segments[::-1]

        async def work() -> None:
            while waiting and not self._stop.is_set():
                segment = waiting.pop()
                if (_name(segment), str(self._wanted)) in finished:
                    self.done.skipped += 1
                    self._progress(segment.size)
                else:
                    await self._segment(segment, census.dead(segment.path))

        await _together([work() for _ in range(min(workers, len(segments)))])
        await self._bury({did: stone.at_us for did, stone in stones.items()})
        finished = await records.finished_segments(self._tables)
        if self.done.repeats or any(finished.values()):
            await records.merge_repeats(self._tables)

    async def _segment(self, segment: Segment, dead: frozenset[int]) -> None:
        reader = SegmentReader(segment, dead, self._wanted, self._progress)
        batches = reader.batches()
        rows = repeats = 0
        batch = await asyncio.to_thread(next, batches, None)
        while batch is not None and not self._stop.is_set():
            # The next batch is read while this one is stored.
            following, known = await asyncio.gather(
                asyncio.to_thread(next, batches, None), self._store(batch)
            )
            rows, repeats, batch = rows + batch.rows, repeats + known, following
        self.done.damage += reader.damage
        self.done.untold += reader.untold
        if batch is not None:
            batches.close()
            return
        self.done.segments += 1
        # A segment that is damaged, or still being written, is not done with.
        if segment.footer is not None and not reader.damage:
            await records.note_segment(
                self._tables, _name(segment), str(self._wanted), rows, repeats
            )

    async def _store(self, batch: RecordBatch) -> int:
        """Repositories first: if we are killed before their records are in, the next run sees
        that those may be there twice. Returns how many were there before."""
        async with self._noting:
            known = await records.replayed_at(self._tables, [row.repo for row in batch.repos])
            await records.insert_repos(self._tables, batch.repos)
        await records.insert_records(self._tables, batch)
        self.done.repos += len(batch.repos)
        self.done.records += batch.rows
        self.done.repeats += len(known)
        return len(known)

    async def _bury(self, stones: dict[str, int]) -> None:
        """Accounts whose servers no longer show them leave the tables, too."""
        known = await records.replayed_at(self._tables, list(stones))
        gone = [RepoRow(did, "", "", 0, stones[did]) for did in known if known[did] < stones[did]]
        if gone:
            await records.note_segment(self._tables, _TOMBSTONES, "", 0, len(gone))
            await records.insert_repos(self._tables, gone)
            self.done.removed += len(gone)


def _name(segment: Segment) -> str:
    """A segment that was compacted or replaced is another one."""
    crc = segment.footer.index_crc if segment.footer else 0
    return f"{segment.path.name} {segment.size} {crc:08x} {segment.header.created_at_us}"


async def _together(jobs: Sequence[Coroutine[Any, Any, None]]) -> None:
    """All of them; the first trouble ends the others and is the caller's, as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job)
    except BaseExceptionGroup as troubles:
        raise troubles.exceptions[0] from None
