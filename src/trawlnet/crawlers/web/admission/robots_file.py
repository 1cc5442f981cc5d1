"""Saves robots.txt answers in the workspace, so that a restart needs no new requests."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from trawlnet.engine.durable import make_directory

_COMPACT_AT = 1000  # Lines; a shorter file is not compacted.


@dataclass(frozen=True, slots=True)
class SavedRobots:
    """One origin's last good answer, and when to ask again."""

    origin: str
    until: float
    status: int | None = None  # None: there was no good answer.
    body: bytes = b""
    at: float = 0.0  # When the good answer came.


class RobotsFile:
    """One JSON line for each answer; the last one of an origin counts. Only offsets are in memory.
    Not synced: answers lost in a power cut are requested again."""

    def __init__(self, path: Path, other: Path | None = None) -> None:
        """`other` is a file of the same kind to learn from; somebody may be writing to it."""
        self._places: dict[str, tuple[int, int]] = {}
        make_directory(path.parent)
        lines = self._read(path)
        if lines >= _COMPACT_AT and lines > 2 * len(self._places):
            self._compact(path)
        self._file = path.open("a+b")
        if other is not None and other.exists():
            self._learn(other)

    def get(self, origin: str) -> SavedRobots | None:
        place = self._places.get(origin)
        if place is None:
            return None
        saved = _saved(os.pread(self._file.fileno(), place[1], place[0]))
        # A process that was taken for dead may have written in between.
        return saved if saved is not None and saved.origin == origin else None

    def put(self, saved: SavedRobots) -> None:
        line = _line(saved)
        start = self._file.seek(0, os.SEEK_END)
        self._file.write(line)
        self._file.flush()
        self._places[saved.origin] = (start, len(line))

    def close(self) -> None:
        self._file.close()

    def _learn(self, other: Path) -> None:
        """What it knows for longer than we do."""
        with other.open("rb") as file:
            for line in file:
                if (theirs := _saved(line)) is None:
                    break
                mine = self.get(theirs.origin)
                if mine is None or mine.until < theirs.until:
                    self.put(theirs)

    def _read(self, path: Path) -> int:
        """Note the places; a line that was torn by a crash ends the file."""
        if not path.exists():
            return 0
        lines = start = 0
        with path.open("r+b") as file:
            for line in file:
                if (saved := _saved(line)) is None:
                    file.truncate(start)
                    break
                self._places[saved.origin] = (start, len(line))
                start += len(line)
                lines += 1
        return lines

    def _compact(self, path: Path) -> None:
        fresh, places = path.with_suffix(".tmp"), {}
        with path.open("rb") as old, fresh.open("wb") as new:
            for origin, (start, length) in self._places.items():
                places[origin] = (new.tell(), length)
                new.write(os.pread(old.fileno(), length, start))
        fresh.replace(path)
        self._places = places


def _line(saved: SavedRobots) -> bytes:
    row = {
        "origin": saved.origin,
        "until": saved.until,
        "status": saved.status,
        "at": saved.at,
        "body": saved.body.decode("latin-1"),  # Any bytes, and readable where they are text.
    }
    return json.dumps(row).encode() + b"\n"


def _saved(line: bytes) -> SavedRobots | None:
    try:
        row = json.loads(line)
        body = row["body"].encode("latin-1")
        return SavedRobots(row["origin"], row["until"], row["status"], body, row["at"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
