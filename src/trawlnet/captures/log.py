"""The append-only log of captures, in numbered segments; all other files are derived from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trawlnet.captures.line import CaptureLine, Glance, glance, pack, unpack
from trawlnet.engine.durable import make_directory
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.spool_files import SpoolDirectory, SpoolLine
from trawlnet.queues.spool_reader import read_on
from trawlnet.storage.files import Appender, disk_errors, truncate_torn_line

SEGMENT_BYTES = 64 * 1024 * 1024
BEGINNING = SpoolPosition(0, 0)
_LINE_BYTES = 256 * 1024 * 1024  # Some pages have a hundred thousand links.


class CaptureLog:
    """The writer; the caller holds the lock. An incomplete last line is cut off on opening: its
    capture was never confirmed."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._files = files_of(folder)
        self._segment_bytes = segment_bytes
        with disk_errors(f"opening capture log {folder}"):
            make_directory(folder)
            self._number = max(self._files.numbers(), default=1)
            path = self._files.segment(self._number)
            if path.exists():
                truncate_torn_line(path)
            self._segment = Appender(path, new=False)

    @property
    def end(self) -> SpoolPosition:
        return SpoolPosition(self._number, self._segment.size)

    def append(self, lines: Sequence[CaptureLine]) -> None:
        """Durable on return."""
        with disk_errors(f"writing capture log {self._files.path}"):
            if self._segment.size >= self._segment_bytes:
                self._segment.close()
                self._number += 1
                self._segment = Appender(self._files.segment(self._number), new=True)
            self._segment.append(b"".join(map(pack, lines)))

    def close(self) -> None:
        self._segment.close()


def files_of(folder: Path) -> SpoolDirectory:
    return SpoolDirectory(folder, "captures")


def log_end(folder: Path) -> SpoolPosition:
    """The end of the last segment, incomplete lines included; a crawl may be writing to it."""
    files = files_of(folder)
    number = max(files.numbers(), default=0)
    return SpoolPosition(number, files.segment(number).stat().st_size) if number else BEGINNING


class LogChunk(NamedTuple):
    lines: Sequence[CaptureLine]  # Never empty.
    end: SpoolPosition


def read_chunks(folder: Path, after: SpoolPosition = BEGINNING) -> Iterator[LogChunk]:
    """Every whole line beyond a position, in order of writing, about a megabyte at a time."""
    for lines, end, place in _read(folder, after):
        yield LogChunk([unpack(line.raw or b"", _named(place, line)) for line in lines], end)


class Glances(NamedTuple):
    lines: Sequence[Glance | CaptureLine]  # Never empty.
    end: SpoolPosition


def read_glances(folder: Path) -> Iterator[Glances]:
    """All lines as glances, for counting, in half the time."""
    for lines, end, place in _read(folder, BEGINNING):
        yield Glances([glance(line.raw or b"", _named(place, line)) for line in lines], end)


def _read(
    folder: Path, after: SpoolPosition
) -> Iterator[tuple[Sequence[SpoolLine], SpoolPosition, Path]]:
    """Lines, their end, and the segment that they are in."""
    files, at = files_of(folder), after
    while True:
        with disk_errors(f"reading capture log {folder}"):
            lines, at = read_on(files, at, _LINE_BYTES)
        if not lines:
            return
        yield lines, at, files.segment(at.segment)


def _named(segment: Path, line: SpoolLine) -> str:
    return f"{segment}@{line.start.offset}"
