"""Find the blocks of one DID in an archive that grows, again and again: what was learned about a
segment is kept, so that a look costs one short read in each."""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trawlnet.archive.blocks import CHUNK, FoundBlock, pread, read_block, read_exactly, walk
from trawlnet.archive.format import rca
from trawlnet.archive.reader import Damage, NoArchive, Segment, find_segments, open_segment
from trawlnet.native.checksum import crc32

_STEP = 128  # Entries of an index between two that are remembered: half a byte for each.
_AFTER_DID = 16  # Bytes of an entry: offset, size, CRC.
_RUN = 1 << 16  # Blocks of an unfinished segment that are sorted together.
_HEAD = struct.Struct("<IH")  # The size of a block, and the length of its DID.
_LONGEST_DID = 0xFFF  # The bits above are the form of the block.
_LEAST = 24  # Bytes of a block.


class BlockFinder:
    """For one thread at a time. Nobody compacts the archive meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, SampledIndex | ScannedBlocks] = {}

    def newest_first(self, did: str) -> Iterator[bytes | Damage]:
        """Every sound block of a DID, by where it was written; of others what is wrong."""
        for path in reversed(self._segments()):
            try:
                found = self._blocks(path, did)
            except rca.RcaError as error:
                found = [Damage(path, error.offset, error.what)]
            except FileNotFoundError:
                continue  # An empty segment is removed when its writer leaves it.
            yield from reversed(found)

    def _segments(self) -> list[Path]:
        try:
            return [path for path in find_segments(self._folder) if isinstance(path, Path)]
        except NoArchive:
            return []

    def _blocks(self, path: Path, did: str) -> list[bytes | Damage]:
        found = self._look(path, did)
        damaged = any(isinstance(one, Damage) for one in found)
        if damaged and isinstance(self._known.pop(path), ScannedBlocks):
            # An unfinished segment may have been cut and written to again since it was scanned.
            return self._look(path, did)
        return found

    def _look(self, path: Path, did: str) -> list[bytes | Damage]:
        index = self._index(path)
        raw, found = did.encode(), list[bytes | Damage]()
        with _open(path) as fd:
            end = os.fstat(fd).st_size
            for offset in index.offsets(fd, raw):
                try:
                    block = read_block(fd, offset, end, check=True)
                    if block.head.did == did:
                        found.append(read_exactly(fd, block.head.size, offset))
                except rca.RcaError as error:
                    found.append(Damage(path, error.offset, error.what))
        return found

    def _index(self, path: Path) -> SampledIndex | ScannedBlocks:
        size = path.stat().st_size
        known = self._known.get(path)
        if known is None or known.size != size:
            segment = open_segment(path)
            sampled = sample_index(segment)
            scanned = known if isinstance(known, ScannedBlocks) else ScannedBlocks()
            known = self._known[path] = sampled or scanned
            if isinstance(known, ScannedBlocks):
                with _open(path) as fd:
                    known.catch_up(fd, segment.blocks_end, segment.size)
        return known


class SampledIndex:
    """Every so many-th entry of the index of a finished segment."""

    def __init__(self, size: int, end: int, dids: list[bytes], places: array[int]) -> None:
        self.size = size  # Of the file.
        self._end = end  # Of the index.
        self._dids = dids
        self._places = places

    def offsets(self, fd: int, did: bytes) -> list[int]:
        """Where the blocks of a DID are, in the order written."""
        found: list[int] = []
        for slot in range(max(0, bisect_left(self._dids, did) - 1), len(self._dids)):
            if self._dids[slot] > did:
                break
            start = self._places[slot]
            end = self._places[slot + 1] if slot + 1 < len(self._places) else self._end
            data = read_exactly(fd, end - start, start)
            at = 0
            while at < len(data):
                fixed = at + 2 + (data[at] | data[at + 1] << 8)
                if data[at + 2 : fixed] == did:
                    found.append(int.from_bytes(data[fixed : fixed + 8], "little"))
                at = fixed + _AFTER_DID
        return found


def sample_index(segment: Segment) -> SampledIndex | None:
    """None for a segment that has no index, or one that is of no use."""
    footer = segment.footer
    if footer is None:
        return None
    dids: list[bytes] = []
    places = array("q")
    start, end = footer.index_offset, footer.index_offset + footer.index_size
    count = crc = 0
    rest = b""
    with segment.open() as fd:
        for piece_at in range(start, end, CHUNK):
            piece = read_exactly(fd, min(CHUNK, end - piece_at), piece_at)
            crc = crc32(piece, crc)
            data = rest + piece
            at = 4 if piece_at == start else 0  # The number of entries.
            while at + 2 <= len(data):
                fixed = at + 2 + (data[at] | data[at + 1] << 8)
                if fixed + _AFTER_DID > len(data):
                    break
                if count % _STEP == 0:
                    dids.append(data[at + 2 : fixed])
                    places.append(piece_at - len(rest) + at)
                count += 1
                at = fixed + _AFTER_DID
            rest = data[at:]
    sound = crc == footer.index_crc and not rest and count == footer.repo_count
    return SampledIndex(segment.size, end, dids, places) if sound else None


class ScannedBlocks:
    """Where the blocks of a segment without an index are: 16 bytes for each. It reads on from where
    it came to, so that a segment that is written to costs what was added."""

    def __init__(self) -> None:
        self.size = 0  # Of the file, when it was last looked at.
        self._clear()

    def _clear(self) -> None:
        self._end = rca.HEADER_SIZE
        self._runs: list[tuple[array[int], array[int]]] = []  # Hashes of DIDs, and offsets.
        self._recent: dict[int, list[int]] = {}
        self._unsorted = 0

    def offsets(self, fd: int, did: bytes) -> list[int]:
        """The same; a block of another DID may be among them."""
        wanted, found = hash(did), list[int]()
        for hashes, offsets in self._runs:
            at = bisect_left(hashes, wanted)
            while at < len(hashes) and hashes[at] == wanted:
                found.append(offsets[at])
                at += 1
        return found + self._recent.get(wanted, [])

    def catch_up(self, fd: int, end: int, size: int) -> None:
        if end < self._end:
            self._clear()  # It was cut: what stood there may be another block by now.
        self.size = size
        while self._end < end:
            before, data = self._end, pread(fd, CHUNK, self._end)
            if not self._step(data, end):
                self._search(fd, end)
            if self._end == before:
                return  # The last block is not whole yet.

    def _step(self, data: bytes, end: int) -> bool:
        """From block to block as far as these bytes reach; False where there is none."""
        start = self._end
        at = 0
        while at + _HEAD.size <= len(data):
            size, length = _HEAD.unpack_from(data, at)
            did = data[at + _HEAD.size : at + _HEAD.size + (length & _LONGEST_DID)]
            if start + at + size > end or len(did) < length & _LONGEST_DID:
                break
            if size < _LEAST or not did.startswith(b"did:"):
                return False
            self._add(did, start + at)
            at += size
            self._end = start + at
        return True

    def _search(self, fd: int, end: int) -> None:
        """Beyond damage, as readers find their way."""
        for found in walk(fd, self._end, end, check=True):
            if isinstance(found, FoundBlock):
                self._add(found.head.did.encode(), found.offset)
        self._end = end

    def _add(self, did: bytes, offset: int) -> None:
        self._recent.setdefault(hash(did), []).append(offset)
        self._unsorted += 1
        if self._unsorted < _RUN:
            return
        hashes, offsets = array("q"), array("q")
        for one, places in sorted(self._recent.items()):
            hashes.extend([one] * len(places))
            offsets.extend(places)
        self._runs.append((hashes, offsets))
        self._recent, self._unsorted = {}, 0


@contextmanager
def _open(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
