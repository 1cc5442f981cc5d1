"""Memory for bodies that is used again: to take fresh pages costs more than to fill them."""

from __future__ import annotations

from bisect import bisect_left, insort

from trawlnet.archive.format.repoblock import Buffer

_LEAST = 64 << 10  # Bytes; less is had for nothing.
_STEPS = 8  # Between a size and its double, so that sizes that are nearly alike meet.


class Bodies:
    def __init__(self, most: int) -> None:
        """`most` bytes are kept."""
        self._most = most
        self._kept: list[bytearray] = []  # Shortest first.
        self._kept_bytes = 0

    def take(self, size: int) -> bytearray | memoryview:
        """Memory of this size with anything in it."""
        if size < _LEAST:
            return bytearray(size)
        return memoryview(self._found(size) or bytearray(_rounded(size)))[:size]

    def give_back(self, body: Buffer) -> None:
        """Nobody reads it any more. What was not taken here is left alone."""
        if not isinstance(body, memoryview) or not isinstance(memory := body.obj, bytearray):
            return
        body.release()
        if self._kept_bytes + len(memory) <= self._most:
            self._kept_bytes += len(memory)
            insort(self._kept, memory, key=len)

    def _found(self, size: int) -> bytearray | None:
        at = bisect_left(self._kept, size, key=len)
        if at == len(self._kept) or len(self._kept[at]) > 2 * size:
            return None
        self._kept_bytes -= len(self._kept[at])
        return self._kept.pop(at)


def _rounded(size: int) -> int:
    step = 1 << max(0, size.bit_length() - _STEPS.bit_length())
    return -(-size // step) * step
