"""The consuming side of a spool: deliveries in order, acks in any order, a bookmark behind both."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from trawlnet.engine.durable import make_directory
from trawlnet.queues.acks import AckMark, SpoolPosition
from trawlnet.queues.queue import Delivery, QueueOptions, decode_message
from trawlnet.queues.spool_files import (
    Poison,
    SpoolDirectory,
    SpoolLine,
    load_bookmark,
    read_lines,
    read_pieces,
    save_bookmark,
)
from trawlnet.queues.wakeup import Wakeup, wait
from trawlnet.storage.files import FileLock, disk_errors

SAVE_EVERY = 100  # Acks between two savings of the bookmark, while there is more to read.
WINDOW = 20_000  # Messages beyond the first unsettled one that are remembered at most.


class Ready(NamedTuple):
    ticket: int
    line: SpoolLine
    body: Any


class SpoolReader:
    def __init__(
        self,
        files: SpoolDirectory,
        bookmark: Path,
        options: QueueOptions,
        on_progress: Callable[[], None],
    ) -> None:
        self._files = files
        self._bookmark = bookmark
        self._options = options
        self._on_progress = on_progress
        self._lock = _lock(bookmark, files)
        try:
            self._saved = load_bookmark(bookmark, files)
            self._newest = max(files.numbers(), default=0)
        except BaseException:
            self._lock.release()
            raise
        self._acks = AckMark(self._saved)
        self._at = self._saved
        self._ready: list[Ready] = []  # A heap: what a consumer gave back goes first.
        self._unsaved = 0
        self._caught_up = False
        self._writer_is_here = False
        self._closed = False
        self._shut = False
        self._changed = Wakeup()
        self._filling = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"spool-{files.name}-reader")
        self.poisoned = 0

    @property
    def mark(self) -> SpoolPosition:
        """Everything before it is settled."""
        return self._acks.mark

    def writer_is_here(self) -> None:
        """Nobody else can write now, so there is nothing to poll for."""
        self._writer_is_here = True
        self._changed.fire()

    async def deliveries(self, prefetch: int, drain: bool) -> AsyncGenerator[Delivery]:
        mine: dict[int, Ready] = {}
        try:
            while not self._closed:
                changed = self._changed.next
                if len(mine) < prefetch:
                    if self._ready:
                        ready = heapq.heappop(self._ready)
                        mine[ready.ticket] = ready
                        place = _place(self._files, ready.line)
                        yield Delivery(ready.body, place, partial(self._settle, mine, ready))
                        continue
                    if await self._fill():
                        continue
                    await self._save()
                    if drain and self._caught_up and not (mine or self._ready):
                        return
                await wait(changed, None if self._writer_is_here else self._options.poll)
        finally:
            for ready in mine.values():
                heapq.heappush(self._ready, ready)
            mine.clear()
            self._changed.fire()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._changed.fire()
        try:
            await self._save()
        finally:
            self._shut = True
            await asyncio.to_thread(self._thread.shutdown)
            self._lock.release()

    async def _fill(self) -> bool:
        """Read on; False when there is nothing to read, or enough is in flight."""
        async with self._filling:
            if self._ready:
                return True
            if len(self._acks) >= WINDOW or self._closed:
                return False
            lines, at = await self._in_thread(self._read)
            for line, body in lines:
                ticket = self._acks.ticket(line.end)
                if body is None:
                    self._unsaved += self._acks.done(ticket)
                    self.poisoned += 1
                else:
                    self._ready.append(Ready(ticket, line, body))
            self._at = at
            self._caught_up = not lines
            if lines:
                self._on_progress()  # Poison moves the mark too.
            return bool(lines)

    async def _settle(self, mine: dict[int, Ready], ready: Ready, why: str | None) -> None:
        if self._closed:
            return
        if why is not None and ready.ticket in mine:
            await self._in_thread(self._put_aside, ready.line, why)
            self.poisoned += 1
        if mine.pop(ready.ticket, None) is None:
            return  # Settled already, or given back when its consumer ended.
        self._unsaved += self._acks.done(ready.ticket)
        self._on_progress()
        self._changed.fire()
        if self._unsaved >= SAVE_EVERY or self._caught_up:
            await self._save()

    async def _save(self) -> None:
        """The bookmark follows the work; settling during a save shares the next one."""
        async with self._saving:
            mark = self._acks.mark
            if mark == self._saved or self._shut:
                return
            self._unsaved = 0
            await self._in_thread(self._save_now, mark)
            self._saved = mark

    async def _in_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def _read(self) -> tuple[list[tuple[SpoolLine, Any]], SpoolPosition]:
        with disk_errors(f"reading spool {self._files.path}"):
            lines, at = read_on(self._files, self._at, self._options.message_bytes, self._newest)
            return [(line, self._body(line)) for line in lines], at

    def _body(self, line: SpoolLine) -> Any:
        """What the line says, or None after it was put aside."""
        if line.raw is None:
            self._put_aside(line, f"longer than {self._options.message_bytes} bytes")
            return None
        try:
            return decode_message(line.raw)
        except ValueError as error:
            self._put_aside(line, f"not a JSON object: {error}")
            return None

    def _put_aside(self, line: SpoolLine, why: str) -> None:
        poison, place = Poison(self._files), _place(self._files, line)
        with disk_errors(f"putting a message aside in spool {self._files.path}"):
            if line.raw is None:
                poison.keep_long(place, why, read_pieces(self._files, line))
            else:
                poison.keep(place, why, line.raw)

    def _save_now(self, mark: SpoolPosition) -> None:
        with disk_errors(f"saving bookmark {self._bookmark}"):
            save_bookmark(self._bookmark, self._files, mark)
            if not self._options.keep and mark.segment > self._saved.segment:
                self._files.delete_before(mark.segment)


def read_on(
    files: SpoolDirectory, at: SpoolPosition, longest: int, newest_known: int = 0
) -> tuple[list[SpoolLine], SpoolPosition]:
    """The next lines from here, across segments, and the place after them."""
    while True:
        lines = read_lines(files, at, longest)
        if lines:
            return lines, lines[-1].end
        following = files.after(at.segment, newest_known)
        if following is None:
            return [], at
        # A segment is complete before its successor exists, so this second look is final; what
        # is left without a newline was torn by a crash, and its publisher knows.
        lines = read_lines(files, at, longest)
        if lines:
            return lines, lines[-1].end
        at = SpoolPosition(following, 0)


def _lock(bookmark: Path, files: SpoolDirectory) -> FileLock:
    with disk_errors(f"opening bookmark {bookmark}"):
        make_directory(bookmark.parent)
        what = f"the bookmark of spool {files.path}"
        return FileLock(bookmark.with_name(f"{bookmark.name}.lock"), what)


def _place(files: SpoolDirectory, line: SpoolLine) -> str:
    return f"{files.segment(line.start.segment).name}@{line.start.offset}"
