"""Files that are derived from the capture log: they grow without syncing, and after a crash are
cut at the last checkpoint and written again from there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trawlnet.captures.line import CaptureLine
from trawlnet.captures.rows import (
    EDGE_COLUMNS,
    PAGE_COLUMNS,
    cdxj_lines,
    csv_bytes,
    edge_rows,
    page_rows,
)
from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.storage.files import replace_file, write_all

Places = Mapping[str, tuple[str, int]]  # By kind: a file's name in the workspace, and its size.


@dataclass(frozen=True, slots=True)
class FileKind:
    header: bytes
    rows: Callable[[Sequence[CaptureLine], bool], bytes]  # The flag: escape formulas.
    rotates: bool = True


KINDS: Mapping[str, FileKind] = {
    "pages": FileKind(csv_bytes([PAGE_COLUMNS]), page_rows),
    "edges": FileKind(csv_bytes([EDGE_COLUMNS]), edge_rows),
    "cdxj": FileKind(b"", cdxj_lines, rotates=False),
}


class Derived:
    """The derived files of a workspace, open for writing."""

    def __init__(self, workspace: Path, most_bytes: int, *, spreadsheet_safe: bool = False) -> None:
        self._workspace = workspace
        self._spreadsheet_safe = spreadsheet_safe
        self._most_bytes = most_bytes
        self._files: dict[str, _Growing] = {}

    def resume(self, places: Places) -> None:
        """Continue at a checkpoint; a file that was deleted is skipped."""
        for kind, (name, size) in places.items():
            path = self._workspace / name
            if path.exists() and path.stat().st_size >= size:
                self._files[kind] = _Growing(path, size)
                _remove_parts_after(path)

    def begin(self, names: Mapping[str, str]) -> None:
        """Write these files from now on, by kind; those open under these names continue."""
        for kind in list(self._files):
            if kind not in names or not self._continues(kind, names[kind]):
                self._files.pop(kind).close()
        for kind, name in names.items():
            if kind not in self._files:
                self._files[kind] = _fresh(self._workspace / name, KINDS[kind])

    def add(self, lines: Sequence[CaptureLine]) -> None:
        for kind, file in list(self._files.items()):
            file.write(KINDS[kind].rows(lines, self._spreadsheet_safe))
            if KINDS[kind].rotates and file.size >= self._most_bytes:
                file.close()
                self._files[kind] = _fresh(_next_part(file.path), KINDS[kind])

    def empty(self, kind: str) -> None:
        if kind in self._files:
            self._files[kind].cut()

    def sync(self) -> Places:
        """Make all files durable; returns their sizes."""
        for file in self._files.values():
            file.sync()
        return {
            kind: (file.path.relative_to(self._workspace).as_posix(), file.size)
            for kind, file in self._files.items()
        }

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _continues(self, kind: str, name: str) -> bool:
        return self._files[kind].path in _parts(self._workspace / name)


class _Growing:
    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.ftruncate(self._fd, size)
        self.size = size
        self._dirty = True

    def write(self, data: bytes) -> None:
        if data:
            write_all(self._fd, data)
            self.size += len(data)
            self._dirty = True

    def sync(self) -> None:
        if self._dirty:
            os.fsync(self._fd)
            self._dirty = False

    def cut(self) -> None:
        os.ftruncate(self._fd, 0)
        self.size, self._dirty = 0, True

    def close(self) -> None:
        os.fsync(self._fd)
        os.close(self._fd)


def _fresh(first: Path, kind: FileKind) -> _Growing:
    make_directory(first.parent)
    if not kind.rotates:
        first.touch()
        fsync_path(first.parent)
        return _Growing(first, first.stat().st_size)
    # Of a rotating file, the first part without rows.
    path = next(part for part in _parts(first) if _rows_of(part, kind) == 0)
    # The file appears together with its header: after a crash nothing would repair it.
    replace_file(path, kind.header)
    return _Growing(path, len(kind.header))


def _rows_of(path: Path, kind: FileKind) -> int:
    """The size of the rows after the header; a crash may have left only the header."""
    return max(0, path.stat().st_size - len(kind.header)) if path.exists() else 0


def _remove_parts_after(path: Path) -> None:
    """Remove parts that were begun after the checkpoint: their rows will be written again."""
    for part in list(_parts(_next_part(path))):
        part.unlink(missing_ok=True)


_PART = re.compile(r"(.+)\.part(\d{4,})")


def _parts(first: Path) -> Iterator[Path]:
    """`pages.csv`, `pages.part0002.csv` and so on, until one that does not exist."""
    path = first
    while path.exists():
        yield path
        path = _next_part(path)
    yield path


def _next_part(path: Path) -> Path:
    found = _PART.fullmatch(path.stem)
    stem, number = (found[1], int(found[2])) if found else (path.stem, 1)
    return path.with_name(f"{stem}.part{number + 1:04d}{path.suffix}")
