"""The sink of a repository crawl: finished blocks, appended to `.rca` segments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trawlnet.archive.recovery import Recovered
from trawlnet.archive.segment_file import check
from trawlnet.archive.writer import SEGMENT_BYTES, SegmentWriter
from trawlnet.engine.task import Task
from trawlnet.engine.threads import Threads

R = TypeVar("R")


class SegmentSink:
    """An engine Sink; each item is a finished repo block.

    Made by `await SegmentSink.open(...)`. A DID that is written twice, as after a crash between
    write and settle, has two blocks; readers take the latest one.
    """

    def __init__(self, thread: Threads, writer: SegmentWriter) -> None:
        # One thread: batches go to disk one after the other, even if a caller is cancelled.
        self._thread = thread
        self._writer = writer

    @classmethod
    async def open(
        cls, folder: Path, now: Callable[[], float], segment_bytes: int = SEGMENT_BYTES
    ) -> SegmentSink:
        """Recovers what a killed crawl left. `now` tells Unix seconds."""
        thread = Threads(1, "segments")
        try:
            writer = await _in(thread, SegmentWriter, folder, now, segment_bytes)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(thread, writer)

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        await self.append([item for _, items in batch for item in items])

    async def append(self, blocks: Sequence[bytes]) -> None:
        """All durable when this returns."""
        if blocks:
            await _in(self._thread, self._write, blocks)

    async def close(self) -> None:
        """Every segment is finalised when this returns."""
        try:
            await _in(self._thread, self._writer.close)
        finally:
            self._thread.shutdown(wait=False)

    @property
    def segments_finalised(self) -> int:
        return self._writer.segments_finalised

    @property
    def bytes_written(self) -> int:
        return self._writer.bytes_written

    @property
    def repos_written(self) -> int:
        return self._writer.repos_written

    @property
    def segment_number(self) -> int:
        return self._writer.segment_number

    @property
    def recovered(self) -> Sequence[Recovered]:
        return self._writer.recovered

    def _write(self, blocks: Sequence[bytes]) -> None:
        self._writer.append([check(block) for block in blocks])


async def _in(thread: Threads, call: Callable[..., R], *args: Any) -> R:
    return await asyncio.get_running_loop().run_in_executor(thread, call, *args)
