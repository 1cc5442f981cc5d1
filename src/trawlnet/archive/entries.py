"""Index entries by the million: collected in little memory, read from a file in pieces."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from trawlnet.archive.format import rca
from trawlnet.native.checksum import crc32

COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<H")
_AFTER_DID = struct.Struct("<qII")  # offset, size, CRC
_RUN = 1 << 13  # Entries that are kept as objects until they are sorted into one run.
_PIECE = 1 << 16


class BlockEntry(NamedTuple):
    did: bytes
    offset: int
    size: int
    crc: int  # Of the whole block.


class EntryLog:
    """What the index of a segment will hold, kept as the bytes it will be.

    An entry of a did:plc costs 50 bytes: a segment of 2 GB costs 2 MB when repositories take 50 KB,
    and 500 MB when they take 200 bytes, the least that one can.
    """

    def __init__(self) -> None:
        self._runs: list[bytes] = []  # Each sorted by DID; older runs first.
        self._open: list[BlockEntry] = []
        self._sealed = 0
        self.size = 0  # Bytes of the entries.

    def __len__(self) -> int:
        return self._sealed + len(self._open)

    def add(self, entry: BlockEntry) -> None:
        """Entries come in the order of their offsets."""
        self._open.append(entry)
        self.size += _LENGTH.size + len(entry.did) + _AFTER_DID.size
        if len(self._open) == _RUN:
            self._runs.append(b"".join(map(_encode, sorted(self._open, key=_did))))
            self._sealed += _RUN
            self._open = []

    def __iter__(self) -> Iterator[BlockEntry]:
        """By DID; those of one DID by offset."""
        runs = [_decode_run(run) for run in self._runs]
        return heapq.merge(*runs, iter(sorted(self._open, key=_did)), key=_did)

    def section(self) -> Iterator[bytes]:
        """The index section, in pieces."""
        yield COUNT.pack(len(self))
        piece = bytearray()
        for entry in self:
            piece += _encode(entry)
            if len(piece) >= _PIECE:
                yield bytes(piece)
                piece.clear()
        yield bytes(piece)


def read_entries(read: Callable[[int, int], bytes], start: int, end: int) -> Iterator[BlockEntry]:
    """The entries of an index section between two offsets of a file, a piece at a time.

    `read` takes a size and an offset. Raises RcaError at the first entry that is not whole.
    """
    (count,) = COUNT.unpack(read(COUNT.size, start))
    at, seen, rest = start + COUNT.size, 0, b""
    while at < end:
        piece = read(min(_PIECE, end - at), at)
        at += len(piece)
        rest += piece
        used = 0
        for entry, entry_end in _decode(rest):
            seen += 1
            used = entry_end
            yield entry
        rest = rest[used:]
    if rest or seen != count:
        what = f"{seen} whole entries and {len(rest)} bytes in an index of {count} entries"
        raise rca.RcaError(end - len(rest), what)


def crc_of(read: Callable[[int, int], bytes], start: int, end: int) -> int:
    crc = 0
    for at in range(start, end, _PIECE):
        crc = crc32(read(min(_PIECE, end - at), at), crc)
    return crc


def _did(entry: BlockEntry) -> bytes:
    return entry.did


def _encode(entry: BlockEntry) -> bytes:
    did, offset, size, crc = entry
    return _LENGTH.pack(len(did)) + did + _AFTER_DID.pack(offset, size, crc)


def _decode_run(run: bytes) -> Iterator[BlockEntry]:
    for entry, _ in _decode(run):
        yield entry


def _decode(data: bytes) -> Iterator[tuple[BlockEntry, int]]:
    """Whole entries, and where each one ends."""
    at = 0
    while at + _LENGTH.size <= len(data):
        start = at + _LENGTH.size
        fixed = start + int.from_bytes(data[at:start], "little")
        at = fixed + _AFTER_DID.size
        if at > len(data):
            return
        yield BlockEntry(data[start:fixed], *_AFTER_DID.unpack_from(data, fixed)), at
