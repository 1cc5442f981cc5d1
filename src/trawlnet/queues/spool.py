"""A queue in a directory: JSONL segments, one writer process, one reader process per bookmark."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

from trawlnet.engine.durable import make_directory
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.queue import Delivery, Message, QueueCounts, QueueOptions, encode
from trawlnet.queues.spool_files import Poison, SpoolDirectory, load_bookmark
from trawlnet.queues.spool_reader import SpoolReader
from trawlnet.queues.wakeup import Wakeup, wait
from trawlnet.storage.files import Appender, FileLock, disk_errors, truncate_torn_line

log = logging.getLogger(__name__)

R = TypeVar("R")

_COUNTED_BYTES = 8 << 20  # Of a spool; the number of messages in a longer one is estimated.

_SILENCE = 5.0  # Seconds that a publisher waits before people are told.
_FULL = "the queue is full: waiting until its consumer has caught up"


class Spool:
    """The Queue over a directory. Writing and reading may be in one process or in two: whoever
    first publishes (or consumes) holds that side until it closes."""

    def __init__(self, path: Path, name: str, options: QueueOptions) -> None:
        self._files = SpoolDirectory(path, name)
        self._options = options
        self._bookmark = options.bookmark or path / f"{name}.bookmark.json"
        self._writer: SpoolWriter | None = None
        self._reader: SpoolReader | None = None
        # One thread: batches go to disk one after the other, even if a publisher is cancelled.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"spool-{name}")
        self._progress = Wakeup()  # Acks in this process.
        self._backlog_at_most: int | None = None  # Unknown before the first look.
        self._poisoned = 0
        self._pruned_at = 0  # Number of the newest segment then.
        # Whether a publisher that is to stop goes over the bound instead of waiting.
        self.closing: Callable[[], bool] = lambda: False

    async def publish(self, messages: Sequence[Message]) -> None:
        lines = [encode(message) for message in messages]
        if not lines:
            return
        await self._wait_for_room()
        await self._in_thread(self._write, lines, asyncio.get_running_loop())

    async def consume(
        self, prefetch: int = 100, *, drain: bool = False
    ) -> AsyncGenerator[Delivery]:
        if self._reader is None:
            await self._in_thread(self._open_reader)
            self._progress.fire()
        assert self._reader is not None
        async with aclosing(self._reader.deliveries(prefetch, drain)) as deliveries:
            async for delivery in deliveries:
                yield delivery

    async def counts(self) -> QueueCounts:
        backlog = await self._in_thread(self._backlog)
        read = self._reader.poisoned if self._reader else 0
        return QueueCounts(backlog, None, poisoned=self._poisoned + read)

    async def depth(self) -> int:
        return await self._in_thread(self._messages)

    def _messages(self) -> int:
        with disk_errors(f"reading spool {self._files.path}"):
            return self._files.messages(self._mark(), _COUNTED_BYTES)

    async def close(self) -> None:
        try:
            if self._reader:
                await self._reader.close()
        finally:
            writer, self._writer = self._writer, None
            if writer:
                await self._in_thread(writer.close)
            await asyncio.to_thread(self._thread.shutdown)

    async def _wait_for_room(self) -> None:
        limit = self._options.backlog_bytes
        # What we wrote since the last look is an upper bound: below it, no need to look.
        if limit is None or (self._backlog_at_most is not None and self._backlog_at_most < limit):
            return
        since, warned = asyncio.get_running_loop().time(), False
        while True:
            progress = self._progress.next
            self._backlog_at_most = await self._in_thread(self._backlog)
            if self._backlog_at_most < limit or self.closing():
                return
            if not warned and asyncio.get_running_loop().time() - since >= _SILENCE:
                warned = True
                figures = {"unread_bytes": self._backlog_at_most, "limit_bytes": limit}
                words = "; ".join(filter(None, (_FULL, self._options.when_full)))
                log.warning(words, extra={"queue": self._files.name, **figures})
            # Acks in this process wake us; those of another one have to be looked for.
            await wait(progress, None if self._reader else self._options.poll)

    async def _in_thread(self, call: Callable[..., R], *args: Any) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def _write(self, lines: list[bytes], loop: asyncio.AbstractEventLoop) -> None:
        longest = self._options.message_bytes
        fitting = [line for line in lines if len(line) <= longest]
        with disk_errors(f"publishing to spool {self._files.path}"):
            if self._writer is None:
                self._writer = SpoolWriter(self._files, self._bookmark, self._options.segment_bytes)
            self._writer.append(fitting)
            self._prune(self._writer)
            for line in lines:
                if len(line) > longest:
                    Poison(self._files).keep("publish", f"too large: {len(line)} bytes", line)
                    self._poisoned += 1
        # Told from here, because the publisher may have been cancelled while we wrote.
        loop.call_soon_threadsafe(self._written, sum(len(line) + 1 for line in fitting))

    def _prune(self, writer: SpoolWriter) -> None:
        """Whenever a segment was begun, and has a line in it: its number must not be lost."""
        if self._options.retention is not None and writer.number != self._pruned_at:
            self._files.prune(self._options.retention)
            self._pruned_at = writer.number

    def _written(self, count: int) -> None:
        if self._backlog_at_most is not None:
            self._backlog_at_most += count
        if self._reader:
            self._reader.writer_is_here()

    def _open_reader(self) -> None:
        if self._reader is None:  # Two consumers may have asked at once.
            with disk_errors(f"reading spool {self._files.path}"):
                self._reader = SpoolReader(
                    self._files, self._bookmark, self._options, self._progress.fire
                )

    def _backlog(self) -> int:
        with disk_errors(f"reading spool {self._files.path}"):
            return self._files.backlog(self._mark())

    def _mark(self) -> SpoolPosition:
        return self._reader.mark if self._reader else load_bookmark(self._bookmark, self._files)


class SpoolWriter:
    """The appending side. A segment that was closed, torn or failed is never written to again:
    a reader may have read beyond the place where we would go on."""

    def __init__(self, files: SpoolDirectory, bookmark: Path, segment_bytes: int) -> None:
        make_directory(files.path)
        self._files = files
        self._segment_bytes = segment_bytes
        self._segment: Appender | None = None
        self._lock = FileLock(files.path / f"{files.name}.writer.lock", f"spool {files.path}")
        try:
            self.number = _last_number(files, bookmark)
        except BaseException:
            self._lock.release()
            raise

    def append(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        segment = self._current()
        try:
            segment.append(b"\n".join(lines) + b"\n")
        except OSError:
            self._leave()
            raise

    def close(self) -> None:
        self._leave()
        self._lock.release()

    def _current(self) -> Appender:
        if self._segment and self._segment.size >= self._segment_bytes:
            self._leave()
        if self._segment is None:
            self.number += 1
            self._segment = Appender(self._files.segment(self.number), new=True)
        return self._segment

    def _leave(self) -> None:
        if self._segment:
            self._segment.close()
            self._segment = None


def _last_number(files: SpoolDirectory, bookmark: Path) -> int:
    last = max(files.numbers(), default=0)
    if last:
        truncate_torn_line(files.segment(last))
    # The bookmark may be ahead of an emptied directory: its numbers are used up too.
    return max(last, load_bookmark(bookmark, files).segment)
