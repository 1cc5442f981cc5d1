"""The index of a repo archive: which block belongs to which DID, found by bisection."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trawlnet.archive.format.rca import (
    HEADER_SIZE,
    Buffer,
    RcaError,
    pack_string,
    read_string,
    read_struct,
)

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<H")
_AFTER_DID = struct.Struct("<qII")  # offset, size, CRC
_LONGEST_DID = 2048  # Bytes.
_LONGEST_ENTRY = 2 + _LONGEST_DID + _AFTER_DID.size
_SCAN = 2 * _LONGEST_ENTRY  # Below this, bisecting on costs more than reading through.
_SEARCH_CHUNK = 1 << 20


class IndexEntry(NamedTuple):
    did: str
    offset: int
    size: int
    crc: int  # Of the whole block.


def encode_index(entries: Sequence[IndexEntry]) -> bytes:
    """Sorted by DID here. Two blocks of one DID keep their order: the later one is the newer."""
    ordered = sorted(entries, key=lambda entry: entry.did.encode())
    parts = [_COUNT.pack(len(ordered))]
    parts += map(encode_entry, ordered)
    return b"".join(parts)


def encode_entry(entry: IndexEntry) -> bytes:
    return pack_string(entry.did) + _AFTER_DID.pack(entry.offset, entry.size, entry.crc)


def iter_index(index: Buffer) -> Iterator[IndexEntry]:
    """Every entry of an index section, one at a time; raises RcaError at the first damaged one."""
    view = memoryview(index)
    (count,), at = read_struct(view, 0, _COUNT)
    for _ in range(count):
        entry, at = _read_entry(view, at)
        yield entry
    if at != len(view):
        raise RcaError(at, f"{len(view) - at} bytes behind the last of {count} index entries")


def find_entries(index: Buffer, did: str) -> list[IndexEntry]:
    """The entries of one DID, in order; touches a few pages of an index of any size.

    Entries differ in length, so bisection has to guess where one starts. Wrong guesses are possible
    only in an index made to mislead; if nothing is found, the whole of it is asked.
    """
    view = memoryview(index)
    try:
        found = _scan(view, _lower_bound(view, did.encode()), did)
    except RcaError:
        found = []
    if not found and _contains(view, pack_string(did)):
        return [entry for entry in iter_index(index) if entry.did == did]
    return found


def _lower_bound(view: memoryview, did: bytes) -> int:
    """An offset at or before the DID's first entry, and not far before."""
    low, high = _COUNT.size, len(view)
    while high - low > _SCAN:
        start = _guess_start(view, (low + high) // 2)
        if start is None or start >= high:
            break
        entry, end = _read_entry(view, start)
        if entry.did.encode() < did:
            low = end
        else:
            high = start
    return low


def _guess_start(view: memoryview, at: int) -> int | None:
    """Where the first entry at or behind `at` seems to start."""
    window = bytes(view[at : at + 2 * _LONGEST_ENTRY])
    found = window.find(b"did:", 2)
    while found >= 0:
        start = at + found - 2
        size = int.from_bytes(window[found - 2 : found], "little")
        end = start + 2 + size + _AFTER_DID.size
        if size <= _LONGEST_DID and _may_start(view, end):
            return start
        found = window.find(b"did:", found + 1)
    return None


def _may_start(view: memoryview, at: int) -> bool:
    return at == len(view) or bytes(view[at + 2 : at + 6]) == b"did:"


def _scan(view: memoryview, at: int, did: str) -> list[IndexEntry]:
    found, wanted = [], did.encode()
    while at < len(view):
        start = at + _LENGTH.size
        name = bytes(view[start : start + int.from_bytes(view[at:start], "little")])
        if name < wanted:  # Most entries: no objects are made of them.
            at = start + len(name) + _AFTER_DID.size
        elif name == wanted:
            entry, at = _read_entry(view, at)
            found.append(entry)
        else:
            break
    return found


def _contains(view: memoryview, needle: bytes) -> bool:
    step = _SEARCH_CHUNK
    return any(
        needle in bytes(view[at : at + step + len(needle)]) for at in range(0, len(view), step)
    )


def _read_entry(view: memoryview, at: int) -> tuple[IndexEntry, int]:
    did, at = read_string(view, at)
    (offset, size, crc), end = read_struct(view, at, _AFTER_DID)
    if offset < HEADER_SIZE:
        raise RcaError(at, f"a block at {offset}, inside the header")
    return IndexEntry(did, offset, size, crc), end
