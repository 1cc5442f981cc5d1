"""A folder of segments for one writer: recovers what was left, appends, rotates, finalises."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trawlnet.archive.format import rca
from trawlnet.archive.reader import (
    Segment,
    check_versions,
    number_of,
    open_segment,
    segment_name,
)
from trawlnet.archive.recovery import Recovered, cut_and_continue, examine, sound_blocks
from trawlnet.archive.segment_file import CheckedBlock, SegmentFile, complete_header, create_segment
from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.storage.errors import SinkError
from trawlnet.storage.files import FileLock, disk_errors, replace_file

log = logging.getLogger(__name__)

SEGMENT_BYTES = 2 << 30
DAMAGED = ".damaged"
_LOCK = ".lock"
_LAST = ".last_segment"  # Numbers stay used even when segments are moved elsewhere.
_COPY_BYTES = 8 << 20
_INDEX_BYTES = (
    256 << 20
)  # In memory until the segment is finalised: some five million repositories.


class SegmentWriter:
    """Blocking. Every error of the disk is a SinkError; what was durable before it stays so."""

    def __init__(
        self, folder: Path, now: Callable[[], float], segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.folder = folder
        self.segments_finalised = 0
        self.bytes_written = 0
        self.repos_written = 0
        self.recovered: list[Recovered] = []
        self._now = now
        self._segment_bytes = segment_bytes
        self._segment: SegmentFile | None = None
        self._troubled = False  # A write has failed: look at the files before the next one.
        with disk_errors(f"opening archive {folder}"):
            make_directory(folder)
            self._lock = FileLock(folder / _LOCK, f"archive {folder}")
            try:
                self._recover()
            except BaseException:
                self._leave()
                self._lock.release()
                raise

    @property
    def segment_number(self) -> int:
        """Of the segment that is written to, or was last."""
        return self._last

    def append(self, blocks: Sequence[CheckedBlock]) -> None:
        """All durable when this returns; the same DID may come again."""
        with self._careful(f"writing to archive {self.folder}"):
            for part in self._parts(blocks):
                self._append(part)

    def finalise(self) -> None:
        """Leave nothing unfinished; the next append begins a new segment."""
        with self._careful(f"finalising a segment of {self.folder}"):
            self._finish()

    def close(self) -> None:
        try:
            self.finalise()
        finally:
            self._leave()
            self._lock.release()

    @contextmanager
    def _careful(self, doing: str) -> Iterator[None]:
        """After an error nothing is known of the open segment but what is on disk."""
        with disk_errors(doing):
            try:
                if self._troubled:
                    self._recover()
                    self._troubled = False
                yield
            except OSError:
                self._troubled = True
                self._leave()
                raise

    def _parts(self, blocks: Sequence[CheckedBlock]) -> Iterator[Sequence[CheckedBlock]]:
        """Cut where a segment reaches its size: the block that reaches it still belongs to it."""
        start, room = 0, self._room()
        for end, block in enumerate(blocks, start=1):
            if end - 1 > start and block.version != blocks[start].version:
                yield blocks[start : end - 1]
                start, room = end - 1, self._segment_bytes - rca.HEADER_SIZE
            room -= len(block.data)
            if room <= 0:
                yield blocks[start:end]
                start, room = end, self._segment_bytes - rca.HEADER_SIZE
        if start < len(blocks):
            yield blocks[start:]

    def _room(self) -> int:
        return self._segment_bytes - (self._segment.size if self._segment else rca.HEADER_SIZE)

    def _append(self, blocks: Sequence[CheckedBlock]) -> None:
        version = blocks[0].version
        if self._segment is not None and self._segment.version != version:
            self._finish()
        if self._segment is None:
            self._segment = self._create(version)
        self._segment.append(blocks)
        self.repos_written += len(blocks)
        self.bytes_written += sum(len(block.data) for block in blocks)
        if self._is_full(self._segment):
            self._finish()

    def _is_full(self, segment: SegmentFile) -> bool:
        return segment.size >= self._segment_bytes or segment.entries.size >= _INDEX_BYTES

    def _create(self, version: int) -> SegmentFile:
        self._last += 1
        replace_file(self.folder / _LAST, b"%d\n" % self._last)
        path = self.folder / segment_name(self._last)
        if path.exists():
            raise SinkError(f"{path} exists already", "move it elsewhere: nothing is overwritten")
        return create_segment(path, int(self._now() * 1_000_000), version)

    def _finish(self) -> None:
        segment = self._segment
        if segment is None:
            return
        if len(segment.entries):
            segment.finalise()
            self.segments_finalised += 1
            fields = {"path": str(segment.path), "repos": len(segment.entries)}
            log.info("segment finalised", extra=fields)
        else:
            segment.path.unlink()
            fsync_path(self.folder)
        self._leave()

    def _leave(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _recover(self) -> None:
        """Finalise or continue what is unfinished; at most the last segment stays open."""
        check_versions(self.folder)
        for leftover in self.folder.glob(".*.tmp"):
            leftover.unlink()
        self._last = _last_number(self.folder)
        for segment in _unfinalised(self.folder):
            self._finish()
            self._recover_one(segment)
        if self._segment is not None and self._is_full(self._segment):
            self._finish()

    def _recover_one(self, segment: Segment) -> None:
        if segment.footer is not None:
            complete_header(segment.file, segment.header, segment.footer)
            self._tell(Recovered(segment.file, segment.footer.repo_count, cut=0))
            return
        findings = examine(segment)
        cut, repos = segment.size - findings.end, len(findings.entries)
        if not findings.damage:
            self._segment = cut_and_continue(segment, findings)
            self._tell(Recovered(segment.file, repos, cut))
            return
        self._copy(segment)
        aside = segment.file.with_name(segment.file.name + DAMAGED)
        segment.file.rename(aside)
        fsync_path(self.folder)
        self._tell(Recovered(segment.file, repos, cut, findings.damage, aside))

    def _copy(self, segment: Segment) -> None:
        self._segment = self._create(segment.header.version)
        batch: list[CheckedBlock] = []
        for block in sound_blocks(segment):
            batch.append(block)
            if sum(len(one.data) for one in batch) >= _COPY_BYTES:
                self._segment.append(batch)
                batch = []
        self._segment.append(batch)

    def _tell(self, recovered: Recovered) -> None:
        self.recovered.append(recovered)
        path = str(recovered.path)
        for gap in recovered.damage:
            fields = {"path": f"{path}@{gap.place}", "error": gap.what}
            log.warning("segment damaged", extra=fields)
        if recovered.set_aside is not None:
            log.warning("segment set aside", extra={"path": str(recovered.set_aside)})
        found = {"path": path, "repos": recovered.repos, "cut": recovered.cut}
        log.info("segment recovered", extra=found)


def _last_number(folder: Path) -> int:
    numbers = [number_of(Path(path.name.removesuffix(DAMAGED))) or 0 for path in folder.iterdir()]
    try:
        numbers.append(int((folder / _LAST).read_bytes()))
    except (FileNotFoundError, ValueError):
        pass
    return max(numbers, default=0)


def _unfinalised(folder: Path) -> Iterator[Segment]:
    paths = [path for path in folder.glob("segment_*.rca") if number_of(path) is not None]
    for path in sorted(paths, key=lambda path: number_of(path) or 0):
        try:
            segment = open_segment(path)
        except rca.RcaError as error:
            # Not from a crash: a header is durable before its file has its name.
            fields = {"path": f"{path}@{error.offset}", "error": error.what}
            log.warning("not a segment", extra=fields)
            continue
        if not segment.finalised:
            yield segment
