"""Read the logs of a workspace back: all runs as one, oldest first, a line in memory at a time."""

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
_LINE_BYTES = 1 << 20  # What we write ourselves is far shorter.


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines; what is empty leaves nothing out."""

    crawler: str = ""
    lane: str = ""  # Part of its name.
    reason: str = ""
    event: str = ""  # Part of it, in any case of letters.
    level: str = ""  # This one, or worse.
    since: str = ""  # An instant as the lines write it.


@dataclass(frozen=True, slots=True)
class LogLine:
    at: str
    run: str  # The crawler and when it was begun, as the file is named.
    fields: Mapping[str, Any]


@dataclass(slots=True)
class Reader:
    """`lines` gives what is there, and when asked again what has come since."""

    folder: Path
    wanted: LogFilter
    unreadable: int = 0  # Lines that are none of ours, or were torn by a crash.
    _read: dict[int, int] = field(default_factory=dict)  # How far, by the file's own number.

    def lines(self) -> Iterator[LogLine]:
        """In order of time: each run is in order by itself, so that a merge needs one line each."""
        with ExitStack() as stack:
            # All of a run are opened at once: while it goes on, its files change their names.
            runs = [self._run(run, files) for run, files in self._open(stack).items()]
            yield from heapq.merge(*runs, key=lambda line: line.at)

    def _open(self, stack: ExitStack) -> dict[str, list[BinaryIO]]:
        runs: dict[str, list[BinaryIO]] = {}
        met: set[int] = set()
        for run, path in _files(self.folder, self.wanted.crawler):
            try:
                file = path.open("rb")
            except FileNotFoundError:
                continue  # It was rotated away, or its run was forgotten, just now.
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
    """So that text sorts by time: a whole second is written without a fraction."""
    return moment.removesuffix("Z")


def _rank(level: object) -> int:
    return LEVELS.index(level) if isinstance(level, str) and level in LEVELS else 0


def _files(folder: Path, crawler: str) -> list[tuple[str, Path]]:
    """Of each run the oldest file first: it has the highest number, and the newest has none."""
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
