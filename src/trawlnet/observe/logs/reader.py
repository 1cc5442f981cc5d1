"""Reads the logs of a workspace: all runs merged, oldest first, one line in memory at a time."""

from __future__ import annotations

import heapq
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

LEVELS = ("debug", "info", "warning", "error", "critical")
_NAME = re.compile(r"(?P<run>(?P<who>[a-z]+)(?:_[a-z_]+)?-[^/]+)\.log(?:\.(?P<age>\d+))?")
_LINE_BYTES = 1 << 20  # Our own lines are far shorter.


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Selects lines; an empty field selects all."""

    crawler: str = ""
    lane: str = ""  # Part of its name.
    reason: str = ""
    event: str = ""  # Part of it, case-insensitive.
    level: str = ""  # This one, or worse.
    since: str = ""  # A time in the format of the lines.


@dataclass(frozen=True, slots=True)
class LogLine:
    at: str
    run: str  # The crawler and its start, from the name of the file.
    fields: Mapping[str, Any]


@dataclass(slots=True)
class Reader:
    """`lines` returns all lines, and on further calls the new ones."""

    folder: Path
    wanted: LogFilter
    unreadable: int = 0  # Foreign or incomplete lines.
    _read: dict[int, int] = field(default_factory=dict)  # Position by inode.

    def lines(self) -> Iterator[LogLine]:
        """In order of time: each run is in order, so that a merge needs one line of each."""
        with ExitStack() as stack:
            # All files of a run are opened at once, because a running crawl renames them.
            runs = [self._run(run, files) for run, files in self._open(stack).items()]
            yield from heapq.merge(*runs, key=lambda line: line.at)

    def _open(self, stack: ExitStack) -> dict[str, list[BinaryIO]]:
        runs: dict[str, list[BinaryIO]] = {}
        met: set[int] = set()
        for run, path in _files(self.folder, self.wanted.crawler):
            try:
                file = path.open("rb")
            except FileNotFoundError:
                continue  # It was just rotated away, or its run was deleted.
            stack.enter_context(file)
            number, end = _number(file), os.fstat(file.fileno()).st_size
            if number not in met and end > self._read.get(number, 0):
                met.add(number)
                runs.setdefault(run, []).append(file)
        return runs

    def _run(self, run: str, files: Iterable[BinaryIO]) -> Iterator[LogLine]:
        for file in files:
            number = _number(file)
            file.seek(self._read.get(number, 0))
            while (raw := file.readline(_LINE_BYTES)).endswith(b"\n"):
                self._read[number] = self._read.get(number, 0) + len(raw)
                line = _parsed(raw, run)
                if line is None:
                    self.unreadable += 1
                elif is_wanted(line, self.wanted):
                    yield line


def is_wanted(line: LogLine, wanted: LogFilter) -> bool:
    fields = line.fields
    return (
        line.at >= wanted.since
        and (not wanted.reason or fields.get("reason") == wanted.reason)
        and wanted.lane in str(fields.get("lane", ""))
        and wanted.event.casefold() in str(fields.get("event", "")).casefold()
        and (not wanted.level or _rank(fields.get("level")) >= LEVELS.index(wanted.level))
    )


def instant(moment: str) -> str:
    """A time as sortable text: whole seconds are written without a fraction."""
    return moment.removesuffix("Z")


def _rank(level: object) -> int:
    return LEVELS.index(level) if isinstance(level, str) and level in LEVELS else 0


def _files(folder: Path, crawler: str) -> list[tuple[str, Path]]:
    """The files of each run, oldest first: it has the highest number, the newest has none."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        if (name := _NAME.fullmatch(path.name)) and crawler in ("", name["who"]):
            found.append((name["run"], -int(name["age"] or 0), path))
    return [(run, path) for run, _, path in sorted(found)]


def _number(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _parsed(raw: bytes, run: str) -> LogLine | None:
    try:
        fields = json.loads(raw)
        return LogLine(instant(fields["at"]), run, fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
