"""The tables of what a fleet has captured: pages, edges and CDXJ, from the logs it has listed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from trawlnet.captures.blobs import BlobDamage
from trawlnet.captures.derived import Derived
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.replay import MOST_TOLD, CaptureReplay
from trawlnet.captures.shared_archive import Read, archived_lines, body_damage, manifest_of
from trawlnet.captures.warc.cdxj import merge_tail
from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.storage.files import disk_errors
from trawlnet.storage.objects import Objects

PAGES, EDGES, CDXJ = "pages.csv", "edges.csv", "index.cdxj"
_TAIL = "index.cdxj.tail"  # In no order yet.
_AT_ONCE = 1_000  # Lines.
_NEVER_FULL = 1 << 62


def replay_archive(
    objects: Objects, folder: Path, *, check_bodies: bool = True, spreadsheet_safe: bool = False
) -> CaptureReplay:
    """Blocking. Files of that name are replaced, all of them when all are whole."""
    told = CaptureReplay()
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
                    _tell(told, derived, lines, read)
                    lines = []
            _tell(told, derived, lines, read)
        derived.sync()
        derived.close()
        (beside / CDXJ).touch()
        merge_tail(beside / CDXJ, beside / _TAIL)
        for name in (PAGES, EDGES, CDXJ):
            (beside / name).replace(folder / name)
        fsync_path(folder)
        shutil.rmtree(beside)
    return told


def _tell(
    told: CaptureReplay, derived: Derived, lines: Sequence[CaptureLine], read: Read | None
) -> None:
    derived.add(lines)
    told.captures += len(lines)
    told.pages += sum(200 <= line.http_status < 300 for line in lines)
    if read is None:
        return
    for line in lines:
        if what := body_damage(read, line):
            told.damaged += 1
            if len(told.damage) < MOST_TOLD:
                told.damage.append(BlobDamage(Path(line.stored_path), f"{line.url}: {what}"))


class _OneAtATime:
    """Reads out of the object that was read out of last: captures come file by file."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._name = ""
        self._data = b""

    def read(self, name: str, size: int, offset: int) -> bytes:
        if name != self._name:
            self._data = self._objects.get(name)
            self._name = name
        return self._data[offset : offset + size]
