"""Rebuilds the page index and a pages CSV from the capture log and the stored bodies."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trawlnet.captures.blobs import BlobDamage, read_blob
from trawlnet.captures.derived import Derived
from trawlnet.captures.files import CaptureFiles, CaptureOptions
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.page import KnownPage
from trawlnet.captures.shared_archive import Read, archived_lines, body_damage, manifest_of
from trawlnet.captures.warc.cdxj import merge_tail
from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.storage.files import disk_errors
from trawlnet.storage.objects import Objects

MOST_LISTED = 1_000  # Damaged bodies that are listed; further ones are only counted.


@dataclass(slots=True)
class CaptureReplay:
    captures: int = 0
    pages: int = 0
    damaged: int = 0
    damage: list[BlobDamage] = field(default_factory=list)
    # Damaged bodies that are the latest content of a page, which can be fetched again.
    lost: list[CaptureLine] = field(default_factory=list)


def replay(
    workspace: Path, run: str, *, check_bodies: bool = True, spreadsheet_safe: bool = False
) -> CaptureReplay:
    """Writes `logs/pages-<run>.csv` with a row for every capture of every run, and the index.

    Blocking. No other process may use the workspace. After a kill, the next opening rebuilds.
    """
    options = CaptureOptions(
        run=run, producer="replay", edges=False, spreadsheet_safe=spreadsheet_safe
    )
    files = CaptureFiles(workspace, options)
    result = CaptureReplay()
    try:
        for lines in files.rebuild():
            result.captures += len(lines)
            for line in lines if check_bodies else ():
                _check(workspace, line, result)
        result.pages = files.pages.count()
        result.lost = [line for line in result.lost if _is_latest(files.pages.get(line.url), line)]
    finally:
        files.close()
    return result


def _check(workspace: Path, line: CaptureLine, result: CaptureReplay) -> None:
    if not line.stored_path or line.content_bytes == 0:
        return  # A 304 names a body of an earlier line.
    path = workspace / line.stored_path
    try:
        read_blob(path)
        return
    except FileNotFoundError:
        what = "is not there"
    except (OSError, ValueError) as error:
        what = str(error)
    result.damaged += 1
    result.lost.append(line)
    if len(result.damage) < MOST_LISTED:
        result.damage.append(BlobDamage(path, what))


def _is_latest(page: KnownPage | None, line: CaptureLine) -> bool:
    return page is not None and page.stored_path == line.stored_path


PAGES, EDGES, CDXJ = "pages.csv", "edges.csv", "index.cdxj"
_TAIL = "index.cdxj.tail"  # Unsorted.
_AT_ONCE = 1_000  # Lines.
_NEVER_FULL = 1 << 62


def replay_archive(
    objects: Objects, folder: Path, *, check_bodies: bool = True, spreadsheet_safe: bool = False
) -> CaptureReplay:
    """Blocking. Replaces the files, all of them once all are complete."""
    result = CaptureReplay()
    beside = folder / ".replay"
    with disk_errors(f"writing to {folder}"):
        shutil.rmtree(beside, ignore_errors=True)
        make_directory(beside)
        derived = Derived(beside, _NEVER_FULL, spreadsheet_safe=spreadsheet_safe)
        derived.begin({"pages": PAGES, "edges": EDGES, "cdxj": _TAIL})
        read = _OneAtATime(objects).read if check_bodies else None
        for listed in manifest_of(objects):
            lines: list[CaptureLine] = []
            for line in archived_lines(objects, listed):
                lines.append(line)
                if len(lines) == _AT_ONCE:
                    _count(result, derived, lines, read)
                    lines = []
            _count(result, derived, lines, read)
        derived.sync()
        derived.close()
        (beside / CDXJ).touch()
        merge_tail(beside / CDXJ, beside / _TAIL)
        for name in (PAGES, EDGES, CDXJ):
            (beside / name).replace(folder / name)
        fsync_path(folder)
        shutil.rmtree(beside)
    return result


def _count(
    result: CaptureReplay, derived: Derived, lines: Sequence[CaptureLine], read: Read | None
) -> None:
    derived.add(lines)
    result.captures += len(lines)
    result.pages += sum(200 <= line.http_status < 300 for line in lines)
    if read is None:
        return
    for line in lines:
        if what := body_damage(read, line):
            result.damaged += 1
            if len(result.damage) < MOST_LISTED:
                result.damage.append(BlobDamage(Path(line.stored_path), f"{line.url}: {what}"))


class _OneAtATime:
    """Caches the object that was read last: captures come file by file."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._name = ""
        self._data = b""

    def read(self, name: str, size: int, offset: int) -> bytes:
        if name != self._name:
            self._data = self._objects.get(name)
            self._name = name
        return self._data[offset : offset + size]
