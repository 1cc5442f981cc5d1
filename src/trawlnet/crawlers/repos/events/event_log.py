"""The log of events: appended by a follower, durable at once, read by others as it grows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from trawlnet.crawlers.repos.events.event import (
    RepoEvent,
    StampedEvent,
    decode_event,
    encode_event,
    time_of,
)
from trawlnet.crawlers.repos.events.event_queue import EventQueue
from trawlnet.engine.control import Control
from trawlnet.malformed import Malformed
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Queue, QueueOptions, Retention
from trawlnet.queues.spool_files import SpoolDirectory, SpoolLine
from trawlnet.queues.spool_log import SpoolLog
from trawlnet.storage.files import disk_errors

log = logging.getLogger(__name__)

R = TypeVar("R")

NAME = "repo_events"  # Of the spool, and of the queue on a server.
SPOOL = "spool"  # Folder of a workspace.
RETENTION = Retention(20 << 30, 3 * 86_400.0)
_SEGMENT_BYTES = 64 << 20
_SEGMENTS = 8  # At least so many share what is retained, so that it shrinks in small steps.
_POLL = 0.2  # Seconds between two looks for what another process has appended.
_LONGEST = QueueOptions().message_bytes
_SERVER = QueueOptions(patience=2.0)  # Then the follower says what it waits for, and tries again.


class EventLog:
    """The writing side; one process at a time. Events are in the spool of the workspace, and, with
    the address of a server, in a queue there as well."""

    def __init__(
        self,
        lines: Queue,
        now: Callable[[], float],
        spool: SpoolLog,
        last_us: int,
        server: EventQueue | None = None,
    ) -> None:
        self._lines = lines  # The spool, to append to,
        self._spool = spool  # and to read.
        self._server = server
        self._now = now
        self._last_us = last_us
        self._lock = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        workspace: Path,
        now: Callable[[], float],
        retention: Retention = RETENTION,
        server: str = "",
    ) -> EventLog:
        """`now` tells Unix seconds; `server` is an amqp:// address."""
        options = QueueOptions(
            segment_bytes=min(_SEGMENT_BYTES, max(1, retention.bytes // _SEGMENTS)),
            keep=True,
            retention=retention,
        )
        lines = await open_queue(workspace / SPOOL, NAME, options)
        there = EventQueue(await open_queue(server, NAME, _SERVER)) if server else None
        last_us = await asyncio.to_thread(_last_time, workspace)
        return cls(lines, now, spool_log(workspace), last_us, there)

    @property
    def last_us(self) -> int:
        """When the newest event was published; 0: none was."""
        return self._last_us

    @property
    def trouble(self) -> str:
        """Why the server does not confirm, in words."""
        return self._server.trouble if self._server else ""

    async def attend(self, control: Control) -> None:
        """While the crawl goes on, a server that is away is waited for."""
        if self._server:
            self._server.attend(control)

    async def append(self, events: Sequence[RepoEvent]) -> None:
        """Durable on return: in the spool, and confirmed by the server. After a failure some may
        be in either; appended again they have the same ids."""
        if not events:
            return
        async with self._lock:
            lines = [orjson.Fragment(line) for line in self._stamped(events)]
            await self._lines.publish(lines)
            if self._server:
                await self._server.publish(lines)

    def after(self, time_us: int) -> Iterator[RepoEvent]:
        """Published later than that, as the spool has them. Blocking."""
        for raw in self._lines_after(time_us):
            try:
                yield decode_event(raw).event
            except Malformed as error:
                log.warning("line skipped", extra={"error": str(error)})

    async def repeat(self, time_us: int) -> None:
        """The same to the server once more, as they are: who is killed between the two has them in
        the spool only."""
        if self._server:
            lines = await asyncio.to_thread(list, self._lines_after(time_us))
            await self._server.publish([orjson.Fragment(line) for line in lines])

    async def close(self) -> None:
        await self._lines.close()
        if self._server:
            await self._server.close()

    def _lines_after(self, time_us: int) -> Iterator[bytes]:
        with disk_errors(f"reading {self._spool.files.path}"):
            at, end = None, self._spool.find(time_us + 1)
            while at != end:
                at = end
                lines, end = self._spool.read(at)
                yield from (line.raw for line in lines if line.raw)

    def _stamped(self, events: Sequence[RepoEvent]) -> Iterator[bytes]:
        now_us = int(self._now() * 1e6)
        for event in events:
            # A clock that was set back must not make the log go back.
            self._last_us = max(now_us, self._last_us + 1)
            yield encode_event(self._last_us, event)


def _last_time(workspace: Path) -> int:
    with disk_errors(f"reading {workspace / SPOOL / NAME}"):
        return spool_log(workspace).last_key() or 0


@dataclass(frozen=True, slots=True)
class EventBatch:
    events: Sequence[StampedEvent]
    end: SpoolPosition  # Where to read on; a bookmark, once the events are dealt with.


class EventReader:
    """The reading side, of any process. Positions stay good until their segment is deleted; then
    every method that reads there raises SegmentsPruned, and the reader begins with the archive."""

    def __init__(
        self, workspace: Path, poll: float = _POLL, threads: Executor | None = None
    ) -> None:
        """Reads in the threads of the loop, or in these."""
        self._log = spool_log(workspace)
        self._poll = poll
        self._threads = threads

    async def start(self) -> SpoolPosition:
        return await self._run(self._log.start)

    async def end(self) -> SpoolPosition:
        return await self._run(self._log.end)

    async def first_time(self) -> int | None:
        """Of the oldest event; None while there is none."""
        return await self._run(self._log.first_key)

    async def last_time(self) -> int | None:
        return await self._run(self._log.last_key)

    async def is_whole(self) -> bool:
        """Whether no event was deleted yet."""
        return await self._run(self._log.is_whole)

    async def find(self, time_us: int) -> SpoolPosition:
        """Before the first event of that time or later."""
        return await self._run(self._log.find, time_us)

    async def read(self, at: SpoolPosition) -> EventBatch:
        """What comes next, about a megabyte; no events at the end of the log."""
        return await self._run(self.read_now, at)

    async def follow(self, at: SpoolPosition) -> AsyncGenerator[EventBatch]:
        """Batch after batch, and then whatever is appended, without end."""
        while True:
            batch = await self.read(at)
            if batch.end != at:
                yield batch
                at = batch.end
            else:
                await asyncio.sleep(self._poll)

    async def _run(self, call: Callable[..., R], *args: Any) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    def read_now(self, at: SpoolPosition, until: SpoolPosition | None = None) -> EventBatch:
        """The same, blocking, and no further than `until`."""
        with disk_errors(f"reading {self._log.files.path}"):
            lines, end = self._log.read(at)
        if until is not None and end > until:
            lines, end = [line for line in lines if line.end <= until], until
        return EventBatch([*self._decoded(lines)], end)

    def _decoded(self, lines: Sequence[SpoolLine]) -> Iterator[StampedEvent]:
        for line in lines:
            try:
                yield decode_event(line.raw or b"")
            except Malformed as error:
                where = f"{self._log.files.segment(line.start.segment).name}@{line.start.offset}"
                log.warning("line skipped", extra={"place": where, "error": str(error)})


def spool_log(workspace: Path) -> SpoolLog:
    files = SpoolDirectory(workspace / SPOOL / NAME, NAME)
    return SpoolLog(files, time_of, _LONGEST)
