"""One segment file as a reader sees it: finished or not, sound or damaged."""

from __future__ import annotations

import mmap
import os
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trawlnet.archive.blocks import (
    DamagedBytes,
    File,
    FoundBlock,
    OpenFile,
    pread,
    read_block,
    read_exactly,
    walk,
)
from trawlnet.archive.entries import COUNT, BlockEntry, EntryLog, crc_of, read_entries
from trawlnet.archive.format import rca
from trawlnet.archive.format.index import find_entries
from trawlnet.archive.remote import Remote

Place = Path | Remote  # A folder of segments, or one of them.

SUFFIX = ".rca"
MANIFEST = "manifest"  # Folder that names the segments which count, where many write.
_NAME = re.compile(r"segment_([0-9]{4,12})\.rca")


class ArchiveChanged(Exception):
    """A segment was replaced between two looks at it."""


class NoArchive(Exception):
    """There is nothing to read where we were told to look."""


@dataclass(frozen=True, slots=True)
class Damage:
    path: Place
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}@{self.offset}: {self.what}"


@dataclass(frozen=True, slots=True)
class Segment:
    """What its ends say. It holds no file open: an archive may have more segments than a process
    may have files."""

    path: Place
    size: int
    header: rca.Header
    footer: rca.Footer | None  # None: not finalised, or its index cannot be used.
    blocks_end: int
    damage: Damage | None  # Why a finalised segment has no usable index.
    identity: tuple[object, ...]

    @property
    def finalised(self) -> bool:
        return self.header.index_offset != 0

    @property
    def file(self) -> Path:
        """Where it is, for those who change it: they are never given a remote one."""
        assert isinstance(self.path, Path)
        return self.path

    @contextmanager
    def open(self) -> Iterator[OpenFile]:
        """The file, if it is still the one that was looked at."""
        with _opened(self.path) as fd:
            # An unfinalised one may have grown; a finalised one can only be replaced.
            if _identity(fd) != self.identity and self.footer is not None:
                raise ArchiveChanged(f"{self.path} was replaced while it was read")
            yield fd

    def blocks(self, fd: File, *, check: bool) -> Iterator[FoundBlock | DamagedBytes]:
        return walk(fd, rca.HEADER_SIZE, self.blocks_end, check=check, starts=self._starts)

    def entries(self) -> Iterator[BlockEntry]:
        """Sorted by DID, from the index; where that is no use, from the sound blocks."""
        if self.footer is not None and self.index_is_sound():
            yield from self.index_entries(self.footer)
            return
        yield from log_blocks(self)

    def index_entries(self, footer: rca.Footer) -> Iterator[BlockEntry]:
        """From the index, whatever it holds."""
        return read_entries(self._read, *self._index_range(footer))

    def find(self, did: str) -> list[BlockEntry]:
        """The blocks of one DID in the order written, in milliseconds if there is an index."""
        if self.footer is not None:
            found = self._find_by_index(self.footer, did)
            if found or self.index_is_sound():
                return found
        return [entry for entry in log_blocks(self) if entry.did == did.encode()]

    def index_is_sound(self) -> bool:
        """Reads all of it, unlike a search."""
        if self.footer is None:
            return False
        return crc_of(self._read, *self._index_range(self.footer)) == self.footer.index_crc

    def _find_by_index(self, footer: rca.Footer, did: str) -> list[BlockEntry]:
        start, end = self._index_range(footer)
        page = start - start % mmap.ALLOCATIONGRANULARITY
        # A finalised segment never shrinks, so that the mapping cannot lose its file.
        with self.open() as fd:
            if not isinstance(fd, int):
                return _entries_in(read_exactly(fd, end - start, start), did)
            mapped = mmap.mmap(fd, end - page, access=mmap.ACCESS_READ, offset=page)
        return _entries_in(memoryview(mapped)[start - page :], did)

    def _index_range(self, footer: rca.Footer) -> tuple[int, int]:
        return footer.index_offset, footer.index_offset + footer.index_size

    def _read(self, size: int, offset: int) -> bytes:
        with self.open() as fd:
            return read_exactly(fd, size, offset)

    def _starts(self) -> array[int] | None:
        if not self.index_is_sound():
            return None
        try:
            return array("q", sorted(entry.offset for entry in self.entries()))
        except rca.RcaError:
            return None


def open_segment(path: Place) -> Segment:
    """Look at both ends of a file. Raises RcaError if it is no archive, UnknownFormat if a newer
    version wrote it, OSError if unreadable."""
    with _opened(path) as fd:
        size = os.fstat(fd).st_size if isinstance(fd, int) else fd.size
        header = rca.parse_header(pread(fd, rca.HEADER_SIZE, 0), path)
        footer, damage = None, None
        try:
            footer = _footer(fd, size, header) if header.index_offset else _early_footer(fd, size)
        except rca.RcaError as error:
            damage = Damage(path, error.offset, error.what)
        end = footer.index_offset if footer else header.index_offset
        blocks_end = end if 0 < end <= size else size
        return Segment(path, size, header, footer, blocks_end, damage, _identity(fd))


def find_segments(place: Place) -> list[Place]:
    """The segments of a folder in the order written, or the one file that was named."""
    if place.name.endswith(SUFFIX) if isinstance(place, Remote) else place.is_file():
        return [place]
    found = sorted(_listed(place), key=lambda path: (number_of(path) or 0, path.name))
    if not found:
        raise NoArchive(f"there are no segments (*{SUFFIX}) in {place}")
    return found


def check_versions(place: Path) -> None:
    """For whoever would find out in the midst of its work. Raises UnknownFormat."""
    for path in [place] if place.is_file() else sorted(place.glob(f"*{SUFFIX}")):
        with suppress(rca.RcaError, FileNotFoundError), path.open("rb") as file:
            rca.parse_header(file.read(rca.HEADER_SIZE), path)


def size_of(path: Place) -> int:
    return path.open().size if isinstance(path, Remote) else path.stat().st_size


def _listed(place: Place) -> list[Place]:
    """Where there is a manifest, a segment that is not in it was never published."""
    if isinstance(place, Remote):
        lines = place.sizes(MANIFEST)
        names = [_named_by(line) for line in lines] if lines else list(place.sizes())
        return [place / name for name in names if name.endswith(SUFFIX)]
    if not place.is_dir():
        raise NoArchive(f"there is no folder or segment {place}")
    if (place / MANIFEST).is_dir():
        lines_here = (place / MANIFEST).glob("*.json")
        return [place / _named_by(line.name) for line in lines_here]
    return list(place.glob(f"*{SUFFIX}"))


def _named_by(line: str) -> str:
    return line.removesuffix(".json") + SUFFIX


def number_of(path: Place) -> int | None:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def segment_name(number: int) -> str:
    return f"segment_{number:04d}{SUFFIX}"


def log_blocks(segment: Segment) -> EntryLog:
    """What an index of a segment would say, from its sound blocks."""
    log = EntryLog()
    with segment.open() as fd:
        for block in segment.blocks(fd, check=True):
            if isinstance(block, FoundBlock):
                log.add(entry_of(block))
    return log


def entry_of(block: FoundBlock) -> BlockEntry:
    return BlockEntry(block.head.did.encode(), block.offset, block.head.size, block.crc)


def read_entry(fd: File, segment: Segment, entry: BlockEntry, *, check: bool) -> FoundBlock:
    """The block that an index entry points to. Raises RcaError when it is not that block."""
    if not rca.HEADER_SIZE <= entry.offset < segment.blocks_end:
        raise rca.RcaError(entry.offset, "an index entry that points outside of the blocks")
    block = read_block(fd, entry.offset, segment.blocks_end, check=check)
    if block.head.did.encode() != entry.did or block.head.size != entry.size:
        raise rca.RcaError(entry.offset, "a block that is not the one in the index")
    if check and block.crc != entry.crc:
        raise rca.RcaError(
            entry.offset, f"whole block CRC {block.crc:08x}, in the index {entry.crc:08x}"
        )
    return block


def read_collection(fd: File, block: FoundBlock, collection: rca.CollectionEntry) -> bytes:
    """The decompressed records of one collection. Raises RcaError."""
    start = block.offset + collection.start
    return rca.unpacked(read_exactly(fd, collection.end - collection.start, start), start)


def _entries_in(index: memoryview | bytes, did: str) -> list[BlockEntry]:
    try:
        found = find_entries(index, did)
    except rca.RcaError:
        return []
    return [BlockEntry(one.did.encode(), one.offset, one.size, one.crc) for one in found]


@contextmanager
def _opened(path: Place) -> Iterator[OpenFile]:
    if isinstance(path, Remote):
        file = path.open()
        try:
            yield file
        finally:
            file.rest()
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _identity(fd: OpenFile) -> tuple[object, ...]:
    if not isinstance(fd, int):
        return fd.version, fd.size
    status = os.fstat(fd)
    return status.st_dev, status.st_ino, status.st_size


def _footer(fd: File, size: int, header: rca.Header) -> rca.Footer:
    start = size - rca.FOOTER_SIZE
    if header.index_offset > start:
        raise rca.RcaError(24, f"an index at {header.index_offset} in a file of {size} bytes")
    try:
        footer = rca.parse_footer(pread(fd, rca.FOOTER_SIZE, start))
    except rca.RcaError as error:
        raise rca.RcaError(start + error.offset, error.what) from None
    if footer.index_offset != header.index_offset:
        what = f"an index at {footer.index_offset}, in the header at {header.index_offset}"
        raise rca.RcaError(start, what)
    if footer.index_offset + footer.index_size != start or footer.index_size < COUNT.size:
        what = f"an index of {footer.index_size} bytes, {start - footer.index_offset} are there"
        raise rca.RcaError(start + 8, what)
    return footer


def _early_footer(fd: File, size: int) -> rca.Footer | None:
    """The footer of a segment whose writer was killed before it could rewrite the header."""
    if size < rca.HEADER_SIZE + rca.FOOTER_SIZE:
        return None
    start = size - rca.FOOTER_SIZE
    try:
        footer = rca.parse_footer(pread(fd, rca.FOOTER_SIZE, start))
    except rca.RcaError:
        return None
    if footer.index_offset + footer.index_size != start or footer.index_size < COUNT.size:
        return None
    crc = crc_of(partial(read_exactly, fd), footer.index_offset, start)
    return footer if crc == footer.index_crc else None
