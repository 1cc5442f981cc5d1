"""A spool on disk: names of segments, lines in them, the bookmark, and the poison beside them."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.queue import Retention
from trawlnet.storage.errors import SinkError
from trawlnet.storage.files import append_line, replace_file

_DIGITS = 12  # Zero-padded, so that names sort as the numbers do.
_CHUNK = 1024 * 1024
_SCAN_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class SpoolLine:
    """One whole line of a segment. `raw` is None when it is longer than a message may be."""

    start: SpoolPosition
    end: SpoolPosition
    raw: bytes | None


@dataclass(frozen=True, slots=True)
class SpoolDirectory:
    path: Path
    name: str

    def segment(self, number: int) -> Path:
        ours = self.path / f"{self.name}-{number:0{_DIGITS}d}.jsonl"
        # Others number theirs by the second, without zeros in front.
        theirs = self.path / f"{self.name}-{number}.jsonl"
        return theirs if theirs != ours and not ours.exists() and theirs.exists() else ours

    def number(self, file_name: str) -> int | None:
        pattern = rf"{re.escape(self.name)}-(\d{{{_DIGITS}}}|[1-9]\d{{0,17}})\.jsonl"
        found = re.fullmatch(pattern, file_name, re.ASCII)
        return int(found[1]) if found else None

    def numbers(self) -> list[int]:
        """The segments that exist, oldest first."""
        if not self.path.is_dir():
            return []
        return sorted(n for f in self.path.iterdir() if (n := self.number(f.name)) is not None)

    def after(self, number: int, newest_known: int = 0) -> int | None:
        """The next segment that exists. Numbers are consecutive, so the directory is listed only
        where somebody has deleted some: before the newest that is known to have been there."""
        if self.segment(number + 1).exists():
            return number + 1
        if number >= newest_known and self.segment(number).exists():
            return None
        return min((n for n in self.numbers() if n > number), default=None)

    def backlog(self, mark: SpoolPosition) -> int:
        """Bytes in the segments beyond a position."""
        sizes = ((n, _size(self.segment(n))) for n in self.numbers() if n >= mark.segment)
        return sum(max(0, size - mark.offset) if n == mark.segment else size for n, size in sizes)

    def messages(self, mark: SpoolPosition, most: int) -> int:
        """How many lines are beyond a position; an estimate if they have more bytes than `most`."""
        left, lines, read = most, 0, 0
        for n in self.numbers():
            if n < mark.segment or left <= 0:
                continue
            try:
                with self.segment(n).open("rb") as file:
                    file.seek(mark.offset if n == mark.segment else 0)
                    found = file.read(left)
            except FileNotFoundError:
                continue  # Its last message has just been acked.
            left, lines, read = left - len(found), lines + found.count(b"\n"), read + len(found)
        return lines if left > 0 or not read else round(lines * self.backlog(mark) / read)

    def delete_before(self, number: int) -> None:
        stale = [n for n in self.numbers() if n < number]
        for n in stale:
            self.segment(n).unlink(missing_ok=True)
        if stale:
            fsync_path(self.path)

    def prune(self, retention: Retention) -> None:
        """Delete what is beyond both limits, but neither the newest segment nor the one before it:
        there may be readers at its end."""
        *older, newest = ((n, self.segment(n).stat()) for n in self.numbers())
        kept, first = 0, newest[0]
        for place, (n, stat) in enumerate(reversed(older)):
            kept += stat.st_size
            age = newest[1].st_mtime - stat.st_mtime
            if place and (kept > retention.bytes or age > retention.seconds):
                break
            first = n
        self.delete_before(first)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # The consumer has deleted it meanwhile.


def load_bookmark(path: Path, spool: SpoolDirectory) -> SpoolPosition:
    """Where the consumer stands; the very beginning when there is no bookmark."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return SpoolPosition(0, 0)
    position = _parse_bookmark(raw, spool)
    if position is None or not _between_lines(spool, position):
        # Starting again from zero in silence would do all the work again, or hide a lost disk.
        raise SinkError(
            f'bookmark {path} is damaged: expected {{"file": ..., "offset": ...}}',
            f"restore it, or read the spool again from its oldest segment: rm '{path}'",
        )
    return position


def _parse_bookmark(raw: bytes, spool: SpoolDirectory) -> SpoolPosition | None:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    file, offset = (value.get("file"), value.get("offset")) if isinstance(value, dict) else (0, 0)
    if file is None and offset == 0:
        return SpoolPosition(0, 0)
    number = spool.number(file) if isinstance(file, str) else None
    if number is None or type(offset) is not int or offset < 0:
        return None
    return SpoolPosition(number, offset)


def _between_lines(spool: SpoolDirectory, at: SpoolPosition) -> bool:
    """Beyond the end is fine too: a power cut may take lines that were read before their fsync."""
    try:
        with spool.segment(at.segment).open("rb") as file:
            file.seek(max(0, at.offset - 1))
            return at.offset == 0 or file.read(1) in (b"\n", b"")
    except FileNotFoundError:
        return True


def save_bookmark(path: Path, spool: SpoolDirectory, mark: SpoolPosition) -> None:
    file = spool.segment(mark.segment).name if mark.segment else None
    make_directory(path.parent)
    replace_file(path, orjson.dumps({"file": file, "offset": mark.offset}))


def read_lines(spool: SpoolDirectory, at: SpoolPosition, longest: int) -> list[SpoolLine]:
    """The next whole lines at a position, about a megabyte of them; empty at the end.

    Only what ends in a newline is a line: the rest is still being written, or was torn by a crash.
    """
    try:
        fd = os.open(spool.segment(at.segment), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        chunk = os.pread(fd, _CHUNK, at.offset)
        if len(chunk) == _CHUNK and b"\n" not in chunk:
            return _read_long_line(fd, at, longest)
        return list(_split(chunk, at, longest))
    finally:
        os.close(fd)


def _split(chunk: bytes, at: SpoolPosition, longest: int) -> Iterator[SpoolLine]:
    start = at.offset
    for raw in chunk.split(b"\n")[:-1]:
        end = start + len(raw) + 1
        text = raw if len(raw) <= longest else None
        yield SpoolLine(SpoolPosition(at.segment, start), SpoolPosition(at.segment, end), text)
        start = end


def _read_long_line(fd: int, at: SpoolPosition, longest: int) -> list[SpoolLine]:
    end = _find_newline(fd, at.offset)
    if end is None:
        return []
    length = end - at.offset
    raw = os.pread(fd, length, at.offset) if length <= longest else None
    return [SpoolLine(at, SpoolPosition(at.segment, end + 1), raw)]


def _find_newline(fd: int, offset: int) -> int | None:
    while chunk := os.pread(fd, _CHUNK, offset):
        found = chunk.find(b"\n")
        if found >= 0:
            return offset + found
        offset += len(chunk)
    return None


def read_pieces(spool: SpoolDirectory, line: SpoolLine) -> Iterator[bytes]:
    """A line too long for memory, piece by piece, without its newline."""
    with spool.segment(line.start.segment).open("rb") as file:
        file.seek(line.start.offset)
        left = line.end.offset - 1 - line.start.offset
        while left > 0 and (piece := file.read(min(left, _SCAN_CHUNK))):
            left -= len(piece)
            yield piece


class Poison:
    """Messages nobody can use, kept where a person can look at them. The same one may be there
    twice after a crash: its place tells."""

    def __init__(self, spool: SpoolDirectory) -> None:
        self.path = spool.path / f"{spool.name}.poison.jsonl"

    def keep(self, place: str, why: str, raw: bytes) -> None:
        try:
            body = {"raw": raw.decode("utf-8")}
        except UnicodeDecodeError:
            body = {"raw_base64": base64.b64encode(raw).decode("ascii")}
        self._append({"place": place, "why": why, **body})

    def keep_long(self, place: str, why: str, pieces: Iterable[bytes]) -> None:
        """In a file of its own, named in the poison file."""
        aside = self.path.with_name(f"{self.path.stem}-{place.replace('@', '-')}.raw")
        with aside.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        self._append({"place": place, "why": why, "raw_file": aside.name})

    def _append(self, record: dict[str, Any]) -> None:
        append_line(self.path, orjson.dumps(record))
