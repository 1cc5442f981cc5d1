"""Which messages are done, when they are done out of order: the low-water mark."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple


class SpoolPosition(NamedTuple):
    """A place between two lines of a spool."""

    segment: int
    offset: int


class AckMark:
    """Tickets are handed out in the order of the queue; `mark` is where all before it is done."""

    def __init__(self, start: SpoolPosition) -> None:
        self.mark = start
        self._next = 0
        self._ends: dict[int, SpoolPosition] = {}  # In order of tickets, from the first not done.
        self._done: set[int] = set()

    def __len__(self) -> int:
        """Tickets since the mark, done ones that wait for an earlier one included."""
        return len(self._ends)

    def ticket(self, end: SpoolPosition) -> int:
        """For the message that ends at `end`."""
        self._next += 1
        self._ends[self._next] = end
        return self._next

    def done(self, ticket: int) -> int:
        """Returns how many messages the mark has passed because of this one."""
        self._done.add(ticket)
        passed = list(takewhile(self._done.__contains__, self._ends))
        for first in passed:
            self.mark = self._ends.pop(first)
            self._done.remove(first)
        return len(passed)
