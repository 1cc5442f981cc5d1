"""Walk the blocks of a segment file, sound or not, with a few pages of it in memory."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trawlnet.archive.format import rca
from trawlnet.archive.remote import RangeFile
from trawlnet.atproto.syntax import is_did
from trawlnet.native.checksum import crc32


class HeldFile:
    """Bytes that are read like a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.version = ""  # Nobody replaces it.

    def pread(self, size: int, offset: int) -> bytes:
        return self._data[offset : offset + size]


CHUNK = 1 << 20


class ReadAhead:
    """A file that is read from its start to its end, most of it in small pieces: keeps the last
    CHUNK, so that a block is fetched once, however often its parts are asked for."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._start = 0
        self._ahead = b""

    def pread(self, size: int, offset: int) -> bytes:
        """Like os.pread: less than asked for only where that gives less."""
        at = offset - self._start
        if at < 0 or at + size > len(self._ahead):
            if size >= CHUNK:
                return os.pread(self._fd, size, offset)
            self._start, self._ahead, at = offset, os.pread(self._fd, CHUNK, offset), 0
        return self._ahead[at : at + size]


# A file descriptor, an object that is read by ranges, or bytes in memory.
OpenFile = int | RangeFile | HeldFile
File = OpenFile | ReadAhead

_HEAD = 4096  # Enough for the table of contents of most repositories.
_HEAD_GROWTH = 16
_HEAD_MAX = 64 << 20  # 65,535 collections with the longest legal names take a third of this.
_TORN_HEAD = 1 << 20  # A file that ends within a table of contents ends after at most so much.
_FUTILE = 4  # A file made to mislead is given up on when so many times its size was read in vain,
_FUTILE_SLACK = 64 << 20  # and this many bytes.


class FoundBlock(NamedTuple):
    offset: int
    head: rca.BlockHead
    crc: int  # Of the whole block; 0 where the walk does not check.

    @property
    def end(self) -> int:
        return self.offset + self.head.size


@dataclass(frozen=True, slots=True)
class DamagedBytes:
    """Bytes that are no sound block."""

    offset: int
    end: int
    place: int  # Where exactly something is wrong.
    what: str


Starts = Callable[[], "array[int] | None"]  # Where blocks start, in order, as an index knows it.


def walk(
    fd: File, start: int, end: int, *, check: bool, starts: Starts | None = None
) -> Iterator[FoundBlock | DamagedBytes]:
    """Every block between two offsets. Without `check` only their tables of contents are read.

    Beyond damage it goes on where the index says; without one, where the next sound block is.
    """
    file = _Patience(fd, _FUTILE * (end - start) + _FUTILE_SLACK)
    known: array[int] | None = None
    at = start
    while at < end:
        try:
            block = _read_block(file, at, end, check)
        except rca.RcaError as error:
            file.wasted()
            if starts is not None:
                known, starts = starts(), None
            resume = _search(file, at, end) if known is None else _next(known, at, end)
            if file.exhausted:
                resume = end
            yield DamagedBytes(at, resume, error.offset, error.what)
            at = resume
        else:
            file.useful()
            yield block
            at = block.end


def read_block(fd: File, offset: int, end: int, *, check: bool) -> FoundBlock:
    """The block at an offset. Raises RcaError, its places counted from the start of the file."""
    return _read_block(_Patience(fd, 0), offset, end, check)


def pread(file: File, size: int, offset: int) -> bytes:
    return os.pread(file, size, offset) if isinstance(file, int) else file.pread(size, offset)


def read_exactly(fd: File, size: int, offset: int) -> bytes:
    data = pread(fd, size, offset)
    while len(data) < size and (more := pread(fd, size - len(data), offset + len(data))):
        data += more
    if len(data) < size:
        raise rca.RcaCut(offset, f"{size} bytes expected where {len(data)} are left")
    return data


def check_names(head: rca.BlockHead) -> None:
    """A block's own CRC does not cover these; zeros there are what a power cut leaves."""
    if not is_did(head.did):
        raise rca.RcaError(4, "a block that does not begin with a DID")
    if "\0" in head.pds or "\0" in head.rev:
        raise rca.RcaError(4, "a block with zeros in its PDS or rev")


class _Patience:
    """A file, and how many bytes of it were read for nothing."""

    def __init__(self, fd: File, futile: int) -> None:
        self._fd = fd
        self._futile = futile
        self._read = 0

    @property
    def exhausted(self) -> bool:
        return self._futile < 0

    def read(self, size: int, offset: int) -> bytes:
        self._read += size
        return pread(self._fd, size, offset)

    def useful(self) -> None:
        self._read = 0

    def wasted(self) -> None:
        self._futile -= self._read
        self._read = 0


def _read_block(file: _Patience, offset: int, end: int, check: bool) -> FoundBlock:
    head = _read_head(file, offset, end)
    if head.size > end - offset:
        raise rca.RcaCut(offset, f"a block of {head.size} bytes where {end - offset} are left")
    return FoundBlock(offset, head, _checked(file, offset, head) if check else 0)


def _read_head(file: _Patience, offset: int, end: int) -> rca.BlockHead:
    want = _HEAD
    while True:
        start = file.read(min(want, end - offset), offset)
        try:
            return rca.parse_head(start)
        except rca.RcaError as error:
            if not isinstance(error, rca.RcaCut) or len(start) < want or want >= _HEAD_MAX:
                raise _moved(error, offset) from None
        want *= _HEAD_GROWTH


def _checked(file: _Patience, offset: int, head: rca.BlockHead) -> int:
    """The CRC of the whole block, once its names and its inner CRC are found right."""
    try:
        check_names(head)
    except rca.RcaError as error:
        raise _moved(error, offset) from None
    whole = inner = at = 0
    while at < head.size:
        piece = file.read(min(CHUNK, head.size - at), offset + at)
        if not piece:
            raise rca.RcaCut(offset + at, "the file ends inside a block")
        whole = crc32(piece, whole)
        # The head, up to its CRC, is never as long as a piece.
        inner = crc32(piece, inner) if at else rca.block_crc(head, piece)
        at += len(piece)
    if inner != head.crc:
        raise rca.RcaError(offset, f"block CRC {inner:08x}, expected {head.crc:08x}")
    return whole


def _moved(error: rca.RcaError, offset: int) -> rca.RcaError:
    return type(error)(error.offset + offset, error.what)


def _next(starts: array[int], at: int, end: int) -> int:
    place = bisect_right(starts, at)
    return min(starts[place], end) if place < len(starts) else end


def _search(file: _Patience, offset: int, end: int) -> int:
    """Where the next sound block starts, for want of an index to ask; `end` if there is none.

    Never inside a block whose head is whole: what it contains was written by strangers, who could
    have hidden a block of their own making there.
    """
    beyond = _claimed_end(file, offset, end)
    if beyond < end and _is_sound(file, beyond, end):
        return beyond
    for candidate in _candidates(file, beyond, end):
        if _is_sound(file, candidate, end):
            return candidate
        if file.exhausted:
            break
    return end


def _claimed_end(file: _Patience, offset: int, end: int) -> int:
    try:
        head = _read_head(file, offset, end)
        return min(offset + head.size, end) if is_did(head.did) else offset + 1
    except rca.RcaCut:
        return end if end - offset <= _TORN_HEAD else offset + 1
    except rca.RcaError:
        return offset + 1


def _is_sound(file: _Patience, offset: int, end: int) -> bool:
    try:
        _read_block(file, offset, end, check=True)
    except rca.RcaError:
        file.wasted()
        return False
    file.useful()
    return True


def _candidates(file: _Patience, start: int, end: int) -> Iterator[int]:
    """Offsets where a size and a text that starts like a DID may be."""
    before, mark = 6, b"did:"
    at = start
    while at < end:
        piece = file.read(min(CHUNK, end - at), at)
        file.useful()  # Looked through once, as all of the file is.
        found = piece.find(mark, before)
        while found >= 0:
            yield at + found - before
            found = piece.find(mark, found + 1)
        if len(piece) < CHUNK:
            return
        at += CHUNK - before - len(mark) + 1
