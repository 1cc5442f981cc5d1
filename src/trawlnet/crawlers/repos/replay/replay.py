"""Replay archives into the table of records: segment by segment, in batches, resumable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trawlnet.archive.census import Census, load_tombstones, take_census
from trawlnet.archive.reader import Damage, Place, Segment, find_segments
from trawlnet.archive.tally import open_all
from trawlnet.crawlers.repos.replay.reading import CollectionFilter, SegmentReader, folded_batches
from trawlnet.tables.clickhouse import records
from trawlnet.tables.clickhouse.live_records import live_position
from trawlnet.tables.clickhouse.ports import Tables
from trawlnet.tables.clickhouse.records import RecordBatch, RepoRow

_TOMBSTONES: Final = "tombstones"  # Noted in place of a segment's name, as is this:
_ELSEWHERE: Final = "elsewhere"


@dataclass(slots=True)
class ReplayCounts:
    """What one run has done, or what was done of one segment."""

    segments: int = 0
    skipped: int = 0  # Segments that were replayed before.
    repos: int = 0
    records: int = 0
    repeats: int = 0  # Repositories that were there before.
    removed: int = 0  # Repositories that a tombstone covers now.
    damage: list[Damage] = field(default_factory=list)
    untold: int = 0  # Damaged places beyond those that are listed.
    tries: int = 0  # Of segments; more than there are if processes died over them.

    def add(self, part: ReplayCounts) -> None:
        self.segments += part.segments
        self.repos += part.repos
        self.records += part.records
        self.repeats += part.repeats
        self.damage += part.damage
        self.untold += part.untold
        self.tries += part.tries


# A segment, and the offsets of its blocks that do not count.
OneSegment = Callable[[Segment, frozenset[int]], Awaitable[ReplayCounts]]


class Replay:
    """`await Replay(...).run(place, workers)`; stopped by its event between two batches."""

    def __init__(
        self,
        tables: Tables,
        wanted: CollectionFilter,
        stop: asyncio.Event,
        progress: Callable[[int], None] = lambda size: None,
        elsewhere: OneSegment | None = None,
    ) -> None:
        """With `elsewhere` other processes replay the segments, and may die at it."""
        self._tables = tables
        self._wanted = wanted
        self._stop = stop
        self._progress = progress
        self._elsewhere = elsewhere
        self._here = SegmentReplay(tables, wanted, stop, progress)
        self.done = ReplayCounts()

    async def run(self, place: Place, workers: int) -> None:
        """Raises NoArchive, TablesError; damage is noted, and the rest goes on."""
        segments = await asyncio.to_thread(open_all, find_segments(place), self.done.damage)
        stones = await asyncio.to_thread(load_tombstones, place)
        # Checked, so that a block which cannot be read does not hide an older one that can.
        census = await asyncio.to_thread(take_census, segments, stones, check=True)
        self.done.damage += census.broken
        finished = await records.finished_segments(self._tables)
        waiting = [one for one in reversed(segments) if not self._is_among(finished, one)]
        self.done.skipped = len(segments) - len(waiting)
        replay_one = self._here.run if self._elsewhere is None else self._sent
        if self._elsewhere is not None and waiting:
            await self._note_elsewhere(repeats=1)

        async def work() -> None:
            while waiting and not self._stop.is_set():
                segment = waiting.pop()
                self.done.add(await replay_one(segment, census.aside(segment.path)))

        await _together([work() for _ in range(min(workers, len(waiting)))])
        await self._replay_folded(census)
        await self._bury({did: stone.at_us for did, stone in stones.items()})
        await self._merge(finished)

    async def _replay_folded(self, census: Census) -> None:
        """Done anew each time: whether a delta has come since is not known by any segment."""
        batches = folded_batches(census, self._wanted, self.done.damage)
        while batch := await asyncio.to_thread(next, batches, None):
            known = await self._here.store(batch)
            self.done.add(ReplayCounts(repos=len(batch.repos), records=batch.rows, repeats=known))

    def _is_among(self, finished: records.Finished, segment: Segment) -> bool:
        if (name_of(segment), str(self._wanted)) not in finished:
            return False
        self._progress(segment.size)
        return True

    async def _sent(self, segment: Segment, dead: frozenset[int]) -> ReplayCounts:
        """What others had in hand when we are stopped is done again another time."""
        assert self._elsewhere is not None
        sent = asyncio.ensure_future(self._elsewhere(segment, dead))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((sent, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not sent.done():
                return ReplayCounts(tries=1)
            self._progress(segment.size)
            return sent.result()
        finally:
            sent.cancel()
            stopped.cancel()

    async def _merge(self, before: records.Finished) -> None:
        """Of a process that died or was cut off nobody knows what it still wrote: it may have been
        noting repositories while its successor asked for them."""
        if self._elsewhere is not None:
            if self._stop.is_set():
                return  # Whoever goes on merges.
            if not before.get((_ELSEWHERE, ""), 0) and self.done.tries == self.done.segments:
                await self._note_elsewhere(repeats=0)
        finished = await records.finished_segments(self._tables)
        is_live = await live_position(self._tables) is not None
        if not (is_live or self.done.repeats or any(finished.values())):
            return
        await records.prune_repeats(self._tables, self._wanted.wants)
        # Where changes come in all the time, there are always repeats: merging all is no use.
        if not is_live:
            await records.merge_repeats(self._tables)
        await records.note_merged(self._tables, str(self._wanted))

    async def _note_elsewhere(self, repeats: int) -> None:
        """Others write, and whoever comes after us has to merge if we do not get to the end."""
        await records.note_segment(self._tables, _ELSEWHERE, "", 0, repeats)

    async def _bury(self, stones: dict[str, int]) -> None:
        """Accounts whose servers no longer show them leave the tables, too."""
        known = await records.replayed_at(self._tables, list(stones))
        # Changes of an account that never was replayed may be there, too.
        gone = [
            RepoRow(did, "", "", 0, at) for did, at in stones.items() if known.get(did, -1) < at
        ]
        if gone:
            await records.note_segment(self._tables, _TOMBSTONES, "", 0, len(gone))
            await records.insert_repos(self._tables, gone)
            self.done.removed += sum(row.repo in known for row in gone)


@dataclass(slots=True)
class SegmentReplay:
    """Replays one segment after another, or several at once."""

    tables: Tables
    wanted: CollectionFilter
    stop: asyncio.Event
    progress: Callable[[int], None] = lambda size: None
    # Looking up who is known and noting who is new must not interleave.
    _noting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, segment: Segment, dead: frozenset[int]) -> ReplayCounts:
        reader = SegmentReader(segment, dead, self.wanted, self.progress)
        batches = reader.batches()
        part = ReplayCounts(tries=1)
        batch = await asyncio.to_thread(next, batches, None)
        while batch is not None and not self.stop.is_set():
            # The next batch is read while this one is stored.
            following, known = await asyncio.gather(
                asyncio.to_thread(next, batches, None), self.store(batch)
            )
            part.add(ReplayCounts(repos=len(batch.repos), records=batch.rows, repeats=known))
            batch = following
        part.damage, part.untold = reader.damage, reader.untold
        if batch is not None:
            batches.close()
            return part
        part.segments = 1
        # A segment that is damaged, or still being written, is not done with.
        if segment.footer is not None and not reader.damage:
            await records.note_segment(
                self.tables, name_of(segment), str(self.wanted), part.records, part.repeats
            )
        return part

    async def store(self, batch: RecordBatch) -> int:
        """Repositories first: if we are killed before their records are in, the next run sees
        that those may be there twice. Returns how many were there before."""
        async with self._noting:
            known = await records.replayed_at(self.tables, [row.repo for row in batch.repos])
            await records.insert_repos(self.tables, batch.repos)
        await records.insert_records(self.tables, batch)
        return len(known)


def name_of(segment: Segment) -> str:
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
