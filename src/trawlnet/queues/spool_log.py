"""A spool read as a log: any number of readers, each at its own place, none deletes anything."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trawlnet.malformed import Malformed
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.spool_files import SpoolDirectory, SpoolLine
from trawlnet.queues.spool_reader import read_on
from trawlnet.storage.files import end_of_last_line

_CHUNK = 16 * 1024
_NEVER = 1 << 63  # Greater than any key.


class SegmentsPruned(Exception):
    """What a reader would read next is no longer kept."""


@dataclass(frozen=True, slots=True)
class SpoolLog:
    """Blocking; for threads. `key` reads from a line a number that grows from line to line, and
    raises Malformed for what is no such line."""

    files: SpoolDirectory
    key: Callable[[bytes], int]
    longest: int  # Bytes of a line.

    def start(self) -> SpoolPosition:
        """Before the oldest line."""
        oldest = min(self.files.numbers(), default=0)
        return SpoolPosition(0 if oldest == 1 else oldest, 0)

    def end(self) -> SpoolPosition:
        """Behind the newest whole line."""
        for number in reversed(self.files.numbers()):
            with self._opened(number) as fd:
                return SpoolPosition(number, end_of_last_line(fd, os.fstat(fd).st_size))
        return SpoolPosition(0, 0)

    def is_whole(self) -> bool:
        """Whether nothing has been deleted yet."""
        return min(self.files.numbers(), default=1) == 1

    def last_key(self) -> int | None:
        for number in reversed(self.files.numbers()):
            with self._opened(number) as fd:
                end = end_of_last_line(fd, os.fstat(fd).st_size)
                while end:
                    start = end_of_last_line(fd, end - 1)
                    try:
                        return self.key(os.pread(fd, end - 1 - start, start))
                    except Malformed:
                        end = start
        return None

    def first_key(self) -> int | None:
        found = self._first(self.files.numbers())
        return None if found == _NEVER else found

    def find(self, key: int) -> SpoolPosition:
        """Before the first line whose key is not smaller; the end if there is none. Reads a line
        for each time that the log can be halved."""
        numbers = self.files.numbers()
        # Of a segment without a line the next one speaks.
        places = range(len(numbers))
        before = bisect_left(places, key, key=lambda place: self._first(numbers[place:])) - 1
        if before < 0:
            return self.start()
        with self._opened(numbers[before]) as fd:
            return SpoolPosition(numbers[before], self._find_in(fd, key))

    def read(self, at: SpoolPosition) -> tuple[list[SpoolLine], SpoolPosition]:
        """The next whole lines, about a megabyte, and the place behind them; none at the end.
        Raises SegmentsPruned."""
        lines, end = read_on(self.files, at, self.longest)
        # Looked at afterwards: it was there all the while, and so was everything behind it.
        if end.segment != at.segment and not self.files.segment(at.segment or 1).exists():
            raise SegmentsPruned(f"{self.files.segment(at.segment or 1).name} is gone")
        return lines, end

    def _first(self, numbers: Sequence[int]) -> int:
        for number in numbers:
            with self._opened(number) as fd:
                for _, raw in _lines_from(fd, 0):
                    try:
                        return self.key(raw)
                    except Malformed:
                        continue
        return _NEVER

    def _find_in(self, fd: int, key: int) -> int:
        """Lines that start before `low` are smaller; those from `high` on are not."""
        low, high = 0, end_of_last_line(fd, os.fstat(fd).st_size)
        while low < high:
            middle = (low + high) // 2
            start, end, found = self._keyed_from(fd, middle)
            if found >= key or start >= high:
                high = middle
            else:
                low = end
        return low

    def _keyed_from(self, fd: int, offset: int) -> tuple[int, int, int]:
        for start, raw in _lines_from(fd, offset):
            try:
                return start, start + len(raw) + 1, self.key(raw)
            except Malformed:
                continue
        return 0, 0, _NEVER

    @contextmanager
    def _opened(self, number: int) -> Iterator[int]:
        try:
            fd = os.open(self.files.segment(number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SegmentsPruned(f"{self.files.segment(number).name} is gone") from None
        try:
            yield fd
        finally:
            os.close(fd)


def _lines_from(fd: int, offset: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines that start at an offset or behind it, with their starts."""
    rest, at = b"", max(0, offset - 1)
    skipping = offset > 0  # The line that the offset is inside of.
    while chunk := os.pread(fd, _CHUNK, at + len(rest)):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if not skipping:
                yield at, line
            skipping = False
            at += len(line) + 1
