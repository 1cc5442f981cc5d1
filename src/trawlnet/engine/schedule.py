"""Which lanes have work, and when each may next be asked: a heap of lanes by instant."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Set


class Schedule:
    """Bounded: past `capacity` lanes it forgets the newcomer and says so in `overflowed`."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._when: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = 0  # Among equal instants the lane that has waited longest goes first.
        self.overflowed = False

    def __len__(self) -> int:
        return len(self._when)

    def lanes_besides(self, others: Set[str]) -> int:
        """How many lanes it holds that are not among the others."""
        return len(self._when) - sum(lane in self._when for lane in others)

    def add(self, lane: str, when: float) -> None:
        """The lane has work at `when`; an earlier instant already noted stands."""
        known = self._when.get(lane)
        if when == math.inf or (known is not None and known <= when):
            return
        if known is None and len(self._when) >= self._capacity:
            self.overflowed = True
            return
        self._when[lane] = when
        self._order += 1
        heapq.heappush(self._heap, (when, self._order, lane))

    def take(self, now: float) -> Iterator[str]:
        """Lanes whose instant has come, each taken off the schedule, longest waiting first."""
        while self._heap and self._heap[0][0] <= now:
            when, _, lane = heapq.heappop(self._heap)
            if self._when.get(lane) == when:
                del self._when[lane]
                yield lane

    def next(self) -> float:
        """The next instant at which a lane may be asked; infinity when there is none."""
        while self._heap and self._when.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf
