"""WARC files, rotated by size; a file is called `.open` until it is complete."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from trawlnet.captures.capture import Capture
from trawlnet.captures.line import InWarc
from trawlnet.captures.warc.format import Original
from trawlnet.captures.warc.records import Packing, WarcRecords, is_recorded, packing_of
from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.storage.files import write_all

_OPEN = ".open"
_SUFFIX = re.compile(r"(-scrape|)-\d{5,}\.warc")


class WarcFiles:
    """`add` collects records, `flush` writes them, `commit` makes them count: records after the
    last commit are cut off after a crash, because no log names them."""

    def __init__(
        self,
        folder: Path,
        run: str,
        about: Mapping[str, str],
        most_bytes: int,
        zstd_level: int | None = None,
    ) -> None:
        make_directory(folder)
        self._packing = packing_of(zstd_level)
        self._folder = folder
        self._run = run
        self._about = about
        self._most_bytes = most_bytes
        self._number = 0
        self._file: _OpenWarc | None = None
        self._new: dict[str, Original] = {}  # By sha256: payloads that are not committed yet.

    def add(self, capture: Capture, sha256: str, original: Original | None) -> InWarc | None:
        """`sha256` is of the content, `original` an earlier record of the same content, if any.
        Returns the place of its record; None if there is nothing to record."""
        if not is_recorded(capture):
            return None
        records = self._current(capture.timestamp).records
        recorded = records.add(capture, original or self._new.get(sha256))
        if recorded.payload and sha256:
            self._new[sha256] = recorded.payload
        return recorded.where

    def flush(self) -> None:
        """Durable on return."""
        if self._file:
            self._file.flush()

    def commit(self) -> None:
        """The capture log names the flushed records now."""
        self._new.clear()
        if self._file:
            self._file.committed = self._file.records.size
            if self._file.committed >= self._most_bytes:
                self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file:
            file.finish()

    def _current(self, timestamp: float) -> _OpenWarc:
        if self._file is None:
            self._number += 1
            while (path := self._path()).exists():  # From an earlier process of this run.
                self._number += 1
            self._file = _OpenWarc(path, self._packing)
            self._file.records.describe(timestamp, self._run, self._about)
        return self._file

    def _path(self) -> Path:
        return self._folder / f"trawlnet-{self._run}-{self._number:05d}{self._packing.suffix}"


class _OpenWarc:
    def __init__(self, path: Path, packing: Packing) -> None:
        self.records = WarcRecords(path.name, packing)
        self.committed = 0
        self._path = path
        self._unfinished = path.with_name(path.name + _OPEN)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._fd = os.open(self._unfinished, flags, 0o644)
        fsync_path(path.parent)

    def flush(self) -> None:
        if data := self.records.take():
            write_all(self._fd, data)
            os.fsync(self._fd)

    def finish(self) -> None:
        os.close(self._fd)
        _finish(self._unfinished, self._path, self.committed)


def recover(folder: Path, last: tuple[str, int] | None, suffix: str = "") -> None:
    """Complete the file that a killed process left open, up to the last record that the capture
    log names: `last` is the name of the file and the end of that record. Files with another suffix
    belong to another process, which may be running."""
    for unfinished in folder.glob(f"*{_OPEN}") if folder.is_dir() else ():
        if (found := _SUFFIX.search(unfinished.name)) and found[1] != suffix:
            continue
        path = unfinished.with_name(unfinished.name.removesuffix(_OPEN))
        _finish(unfinished, path, last[1] if last and last[0] == path.name else 0)


def _finish(unfinished: Path, path: Path, size: int) -> None:
    if size == 0:
        unfinished.unlink()
    else:
        os.truncate(unfinished, size)
        fsync_path(unfinished)
        unfinished.replace(path)
    fsync_path(path.parent)
