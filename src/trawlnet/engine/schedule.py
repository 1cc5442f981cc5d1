"""The schedule of lanes with work: a heap, ordered by the instant at which each may send."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterator, Set


class Schedule:
    """Bounded: above `capacity` lanes it drops a new lane and sets `overflowed`.

    Of the lanes that are due, the one with the most seconds of work left goes first, because no
    crawl is done before its longest lane. Each second of waiting counts like a second of work, so
    that a lane with little work is not passed over for ever.
    """

    def __init__(self, capacity: int, work_left: Callable[[str], float] = lambda lane: 0.0) -> None:
        self._capacity = capacity
        self._work_left = work_left
        self._when: dict[str, float] = {}  # Minus infinity for lanes that are due.
        self._later: list[tuple[float, int, str]] = []
        self._ready: list[tuple[float, int, str]] = []
        self._order = 0  # Among equals the lane that has waited longest goes first.
        self.overflowed = False

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, lane: str) -> bool:
        return lane in self._when

    def lanes_besides(self, others: Set[str]) -> int:
        """The number of lanes on the schedule that are not in `others`."""
        return len(self._when) - sum(lane in self._when for lane in others)

    def soon(self, until: float, most: int, others: tuple[Container[str], Container[str]]) -> int:
        """The number of lanes due by `until` that are in neither of the others, at most `most`: the
        dispatcher calls this for every task."""
        some, more = others
        found = sum(lane not in some and lane not in more for _, _, lane in self._ready[:most])
        places = [0]
        while places and found < most:
            place = places.pop()
            if place >= len(self._later) or (when := self._later[place][0]) > until:
                continue
            lane = self._later[place][2]
            found += self._when.get(lane) == when and lane not in some and lane not in more
            places += (2 * place + 1, 2 * place + 2)  # In a heap, children are not earlier.
        return found

    def add(self, lane: str, when: float) -> None:
        """The lane has work at `when`; an earlier instant on the schedule stays."""
        known = self._when.get(lane)
        if when == math.inf or (known is not None and known <= when):
            return
        if known is None and len(self._when) >= self._capacity:
            self.overflowed = True
            return
        self._when[lane] = when
        self._order += 1
        heapq.heappush(self._later, (when, self._order, lane))

    def take(self, now: float, gather: float = 0.0) -> Iterator[str]:
        """Remove and yield the lanes that are due; if there is one, also those that are due within
        `gather` seconds."""
        # Only new lanes gather: an early lane whose task the store does not lease before it is
        # due would return again and again, before the lanes that are left over.
        if self._later and self._later[0][0] <= now:
            self._ripen(now + gather)
        while self._ready:
            _, _, lane = heapq.heappop(self._ready)
            del self._when[lane]
            yield lane

    def next(self) -> float:
        """The next instant at which a lane is due; infinity if there is none."""
        if self._ready:
            return -math.inf
        while self._later and self._when.get(self._later[0][2]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else math.inf

    def _ripen(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            when, _, lane = heapq.heappop(self._later)
            if self._when.get(lane) == when:
                self._when[lane] = -math.inf
                self._order += 1
                heapq.heappush(self._ready, (now - self._work_left(lane), self._order, lane))
