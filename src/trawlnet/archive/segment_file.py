"""One segment file while it is written: blocks are appended, then index and footer close it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trawlnet.archive.blocks import check_names
from trawlnet.archive.entries import BlockEntry, EntryLog
from trawlnet.archive.format import rca
from trawlnet.engine.durable import fsync_path
from trawlnet.native.checksum import crc32
from trawlnet.storage.files import replace_file, write_all


@dataclass(frozen=True, slots=True)
class CheckedBlock:
    """A finished repo block that was looked at before it goes to disk."""

    did: bytes
    data: bytes
    crc: int  # Of the whole block.

    @property
    def version(self) -> int:
        """Of the segment that it goes to."""
        return rca.version_of(self.data)


def check(data: bytes) -> CheckedBlock:
    """Raises RcaError for anything that a recovery would cut off as torn."""
    head = rca.check_block(data)
    check_names(head)
    return CheckedBlock(head.did.encode(), data, crc32(data))


class SegmentFile:
    """An unfinalised segment, for one writer. After an OSError close it, and recover the file."""

    def __init__(
        self, path: Path, created_at_us: int, entries: EntryLog, size: int, version: int
    ) -> None:
        self.path = path
        self.version = version
        self.size = size  # Header and durable blocks.
        self.entries = entries
        self._created_at_us = created_at_us
        self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)

    def append(self, blocks: Sequence[CheckedBlock]) -> None:
        """Durable when this returns."""
        os.lseek(self._fd, self.size, os.SEEK_SET)
        try:
            for block in blocks:
                write_all(self._fd, block.data)
            os.fsync(self._fd)
        except OSError:
            self._undo()
            raise
        for block in blocks:
            self.entries.add(BlockEntry(block.did, self.size, len(block.data), block.crc))
            self.size += len(block.data)

    def finalise(self) -> None:
        """At every instant the file is either one that can be recovered or a complete one."""
        os.lseek(self._fd, self.size, os.SEEK_SET)
        try:
            footer = self._write_index(self.entries.section())
            write_all(self._fd, rca.encode_footer(footer))
            # The header must not point to an index that a power cut could take away.
            os.fsync(self._fd)
        except OSError:
            self._undo()
            raise
        header = rca.Header(
            self._created_at_us, footer.repo_count, footer.index_offset, self.version
        )
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, rca.encode_header(header))
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _write_index(self, pieces: Iterable[bytes]) -> rca.Footer:
        size = crc = 0
        for piece in pieces:
            write_all(self._fd, piece)
            size += len(piece)
            crc = crc32(piece, crc)
        return rca.Footer(self.size, size, len(self.entries), crc)

    def _undo(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            pass  # The disk is in trouble already; the torn tail is cut by the next recovery.


def create_segment(path: Path, created_at_us: int, version: int) -> SegmentFile:
    """A new segment; its name and its header are durable before any block is written."""
    header = rca.encode_header(rca.Header(created_at_us, 0, 0, version))
    replace_file(path, header)
    return SegmentFile(path, created_at_us, EntryLog(), len(header), version)


def complete_header(path: Path, begun: rca.Header, footer: rca.Footer) -> None:
    """The last step of a finalisation that was cut short."""
    fsync_path(path)
    header = replace(begun, repo_count=footer.repo_count, index_offset=footer.index_offset)
    with path.open("r+b", buffering=0) as file:
        write_all(file.fileno(), rca.encode_header(header))
        os.fsync(file.fileno())
