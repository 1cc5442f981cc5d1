"""The sink of this crawl: blocks to segments, tombstones beside them, and notes of both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trawlnet.archive.sink import SegmentSink
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.visiting.visit import PackedRepo
from trawlnet.engine.task import Task
from trawlnet.observe.metrics.repos import RepoMeter
from trawlnet.storage.files import disk_errors

# Called after each batch that is durable: how many repositories that were not archived before, and
# how many bytes.
OnWritten = Callable[[int, int], Awaitable[None]]

R = TypeVar("R")


class ArchiveSink:
    def __init__(
        self, folder: Path, segments: SegmentSink, archived: ArchiveCatalogue, meter: RepoMeter
    ) -> None:
        self._folder = folder
        self._segments = segments
        self._archived = archived
        self._meter = meter
        self.listeners: list[OnWritten] = []
        # A block is noted before the next is written: notes say how far they know the segments.
        self._turn = asyncio.Lock()

    @property
    def segment_number(self) -> int:
        return self._segments.segment_number

    def current_segment(self) -> int | None:
        """As others are told; None would be: somebody else numbers them."""
        return self.segment_number

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        items = [item for _, items in batch for item in items]
        fetched = [item for item in items if isinstance(item, PackedRepo)]
        stones = [item for item in items if isinstance(item, Tombstone)]
        async with self._turn:
            new = await _to_the_end(self._write_and_note(fetched, stones))
        for one in fetched:
            one.ticket.close()
        await self._tell(fetched, new)

    async def append(self, blocks: Sequence[bytes], revs: Mapping[str, str]) -> None:
        """Deltas, and the revs that they lead to: durable when this returns, and noted after."""
        if not blocks:
            return
        async with self._turn:
            await _to_the_end(self._append_and_note(blocks, revs))
        size = sum(map(len, blocks))
        self._meter.changed(len(blocks), size)
        self._meter.segments(self._segments.segments_finalised, self._segments.segment_number)
        for tell in self.listeners:
            await tell(0, size)

    async def _write_and_note(
        self, fetched: Sequence[PackedRepo], stones: Sequence[Tombstone]
    ) -> int:
        """How many of the repositories were not in the archive before."""
        await self._segments.append([one.made.block for one in fetched])
        if stones:
            await asyncio.to_thread(self._bury, stones)
        revs = await self._archived.revs(one.made.did for one in fetched)
        changes = {stone.did: "" for stone in stones}
        changes |= {one.made.did: one.made.rev for one in fetched}
        await self._archived.note(changes, {one.made.did: one.made.dropped for one in fetched})
        return len({one.made.did for one in fetched} - revs.keys())

    async def _append_and_note(self, blocks: Sequence[bytes], revs: Mapping[str, str]) -> None:
        await self._segments.append(blocks)
        await self._archived.note(revs)

    def _bury(self, stones: Sequence[Tombstone]) -> None:
        with disk_errors(f"writing tombstones to {self._folder}"):
            append_tombstones(self._folder, stones)

    async def _tell(self, fetched: Sequence[PackedRepo], new: int) -> None:
        for one in fetched:
            self._meter.archived(one.made.records, len(one.made.block))
        self._meter.segments(self._segments.segments_finalised, self._segments.segment_number)
        if fetched:
            for tell in self.listeners:
                await tell(new, sum(len(one.made.block) for one in fetched))


async def _to_the_end(work: Coroutine[Any, Any, R]) -> R:
    """Do it all, even if the caller is cancelled meanwhile: a block that is in a segment and not
    noted would be taken for one that was read before, and be fetched again."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await asyncio.wait([task])
