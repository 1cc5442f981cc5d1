"""The order of first requests: old ranges that were left over, then new ids."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_DRY = 64  # This many absent ids in a row,
_LARGE = 1000  # in a range with this many more, are a gap and not a few holes.


class Walk:
    def __init__(self, cursor: int, step: int, pending: Iterable[tuple[int, int]]) -> None:
        self.cursor = cursor  # The next id that was never requested.
        self._step = step
        self._spans = deque(sorted(span for span in pending if span[0] < span[1]))
        self._current = (0, 0)
        self._dry = 0
        self._ahead: set[int] = set()  # Ids that probes have fetched already.

    @property
    def behind(self) -> bool:
        return bool(self._spans)

    def new(self, most: int, last: float) -> list[int]:
        """The next ids, up to the last one that may be requested."""
        made: list[int] = []
        while len(made) < most and self.cursor <= last:
            if not self._fetched(self.cursor):
                made.append(self.cursor)
            self.cursor += self._step
        return made

    def next_new(self) -> int:
        return self.new(1, float("inf"))[0]

    def old(self, most: int) -> list[int]:
        """Ids of the ranges that were left over."""
        made: list[int] = []
        while self._spans and len(made) < most:
            start, end = self._spans[0]
            if self._current[1] != end:
                self._current, self._dry = (start, end), 0
            if not self._fetched(start):
                made.append(start)
            if start + 1 < end:
                self._spans[0] = (start + 1, end)
            else:
                self._spans.popleft()
        return made

    def walked(self, i: int, *, missing: bool) -> tuple[int, int] | None:
        """Record an answer. Returns the rest of the range if it looks like a gap; the range is then
        no longer walked, and the crossing of the gap adds the ids behind it."""
        if not self._current[0] <= i < self._current[1]:
            return None
        self._dry = self._dry + 1 if missing else 0
        if self._dry < _DRY or not self._spans or self._spans[0][1] != self._current[1]:
            return None
        start, end = self._spans[0]
        if end - start < _LARGE:
            return None
        self._dry = 0
        self._spans.popleft()
        return start, end

    def add(self, start: int, end: int) -> None:
        if start < end:
            self._spans.append((start, end))

    def jump(self, to: int) -> None:
        self.cursor = max(self.cursor, to)

    def fetched_ahead(self, i: int) -> bool:
        """A probe has fetched this id; returns False if that was known already."""
        if i in self._ahead:
            return False
        self._ahead.add(i)
        return True

    def is_ahead(self, i: int) -> bool:
        """Whether a probe has fetched this id: a second answer would be published again."""
        return i in self._ahead

    def _fetched(self, i: int) -> bool:
        if self._ahead and i in self._ahead:
            self._ahead.discard(i)
            return True
        return False
