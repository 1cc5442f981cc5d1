"""Walk the blocks of a segment file, sound or not, with a few pages of it in memory."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from zlib import crc32

from trawlnet.formats import rca
from trawlnet.formats.syntax import is_did

CHUNK = 1 << 20
_HEAD = 4096  # Enough for the table of contents of most repositories.
_HEAD_GROWTH = 16
_HEAD_MAX = 64 << 20  # 65,535 collections with the longest legal names take a third of this.
_TORN_HEAD = 1 << 20  # A file that ends within a table of contents ends after at most so much.
_SEARCH_SLACK = 64 << 20  # Bytes of futile checks that even a small file may cost.


@dataclass(frozen=True, slots=True)
class FoundBlock:
    offset: int
    head: rca.BlockHead
    crc: int  # Of the whole block; 0 where the walk does not check.

    @property
    def end(self) -> int:
        return self.offset + self.head.size


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no sound block."""

    offset: int
    end: int
    place: int  # Where exactly something is wrong.
    what: str


Starts = Callable[[], "array[int] | None"]  # Where blocks start, in order, as an index knows it.


def walk(
    fd: int, start: int, end: int, *, check: bool, starts: Starts | None = None
) -> Iterator[FoundBlock | Gap]:
    """Every block between two offsets. Without `check` only their tables of contents are read.

    Beyond damage it goes on where the index says; without one, where the next sound block is.
    """
    search = _Search(fd, end, budget=4 * (end - start) + _SEARCH_SLACK)
    at = start
    while at < end:
        try:
            block = read_block(fd, at, end, check=check)
        except rca.RcaError as error:
            known = starts() if starts else None
            resume = search.after(at) if known is None else _next(known, at, end)
            yield Gap(at, resume, error.offset, error.what)
            at = resume
        else:
            yield block
            at = block.end


def read_block(fd: int, offset: int, end: int, *, check: bool) -> FoundBlock:
    """The block at an offset. Raises RcaError, its places counted from the start of the file."""
    head = _read_head(fd, offset, end)
    if head.size > end - offset:
        raise rca.RcaCut(offset, f"a block of {head.size} bytes where {end - offset} are left")
    return FoundBlock(offset, head, _checked(fd, offset, head) if check else 0)


def read_exactly(fd: int, size: int, offset: int) -> bytes:
    data = os.pread(fd, size, offset)
    while len(data) < size and (more := os.pread(fd, size - len(data), offset + len(data))):
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


def _read_head(fd: int, offset: int, end: int) -> rca.BlockHead:
    want = _HEAD
    while True:
        start = os.pread(fd, min(want, end - offset), offset)
        try:
            return rca.parse_head(start)
        except rca.RcaError as error:
            if not isinstance(error, rca.RcaCut) or len(start) < want or want >= _HEAD_MAX:
                raise _moved(error, offset) from None
        want *= _HEAD_GROWTH


def _checked(fd: int, offset: int, head: rca.BlockHead) -> int:
    """The CRC of the whole block, once its names and its inner CRC are found right."""
    try:
        check_names(head)
    except rca.RcaError as error:
        raise _moved(error, offset) from None
    whole = inner = at = 0
    while at < head.size:
        piece = read_exactly(fd, min(CHUNK, head.size - at), offset + at)
        whole = crc32(piece, whole)
        inner = crc32(memoryview(piece)[max(0, head.crc_end - at) :], inner)
        at += len(piece)
    if inner != head.crc:
        raise rca.RcaError(offset, f"block CRC {inner:08x}, expected {head.crc:08x}")
    return whole


def _moved(error: rca.RcaError, offset: int) -> rca.RcaError:
    return type(error)(error.offset + offset, error.what)


def _next(starts: array[int], at: int, end: int) -> int:
    place = bisect_right(starts, at)
    return min(starts[place], end) if place < len(starts) else end


class _Search:
    """Looks for the next sound block where there is no index to ask.

    Never inside a block whose head is whole: what it contains was written by strangers, who could
    have hidden a block of their own making there.
    """

    def __init__(self, fd: int, end: int, budget: int) -> None:
        self._fd = fd
        self._end = end
        self._budget = budget  # Bytes; a file made to mislead must not keep us for ever.

    def after(self, offset: int) -> int:
        beyond = self._claimed_end(offset)
        if self._is_sound(beyond):
            return beyond
        for candidate in self._candidates(beyond):
            if self._is_sound(candidate):
                return candidate
        return self._end

    def _claimed_end(self, offset: int) -> int:
        try:
            head = _read_head(self._fd, offset, self._end)
            return min(offset + head.size, self._end) if is_did(head.did) else offset + 1
        except rca.RcaCut:
            return self._end if self._end - offset <= _TORN_HEAD else offset + 1
        except rca.RcaError:
            return offset + 1

    def _is_sound(self, offset: int) -> bool:
        if offset >= self._end or self._budget <= 0:
            return False
        try:
            size = rca.block_size(os.pread(self._fd, 4, offset))
            if size > self._end - offset:
                return False
            self._budget -= size
            read_block(self._fd, offset, self._end, check=True)
        except rca.RcaError:
            return False
        return True

    def _candidates(self, start: int) -> Iterator[int]:
        """Offsets where a size and a text that starts like a DID may be."""
        before, mark = 6, b"did:"
        at = start
        while at < self._end and self._budget > 0:
            piece = os.pread(self._fd, CHUNK, at)
            found = piece.find(mark, before)
            while found >= 0:
                yield at + found - before
                found = piece.find(mark, found + 1)
            if len(piece) < CHUNK:
                return
            at += CHUNK - before - len(mark) + 1
