"""Which lanes have work, and when each may next be asked: a heap of lanes by instant."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterator, Set


class Schedule:
    """Bounded: past `capacity` lanes it forgets the newcomer and says so in `overflowed`.

    Of the lanes whose instant has come the one with the most seconds of work left goes first,
    since no crawl is done before its longest lane is; one that has waited goes before another
    that has no more left than it had, and so many seconds more as it has waited.
    """

    def __init__(self, capacity: int, work_left: Callable[[str], float] = lambda lane: 0.0) -> None:
        self._capacity = capacity
        self._work_left = work_left
        self._when: dict[str, float] = {}  # Minus infinity once the instant has come.
        self._later: list[tuple[float, int, str]] = []
        self._ready: list[tuple[float, int, str]] = []
        self._order = 0  # Among equals the lane that has waited longest goes first.
        self.overflowed = False

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, lane: str) -> bool:
        return lane in self._when

    def lanes_besides(self, others: Set[str]) -> int:
        """How many lanes it holds that are not among the others."""
        return len(self._when) - sum(lane in self._when for lane in others)

    def soon(self, until: float, most: int, others: tuple[Container[str], Container[str]]) -> int:
        """How many lanes that are in neither of the others may be asked by then; at most so many
        are counted, since whoever asks does so for every task."""
        some, more = others
        found = sum(lane not in some and lane not in more for _, _, lane in self._ready[:most])
        places = [0]
        while places and found < most:
            place = places.pop()
            if place >= len(self._later) or (when := self._later[place][0]) > until:
                continue
            lane = self._later[place][2]
            found += self._when.get(lane) == when and lane not in some and lane not in more
            places += (2 * place + 1, 2 * place + 2)  # A heap: none of these is earlier.
        return found

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
        heapq.heappush(self._later, (when, self._order, lane))

    def take(self, now: float, gather: float = 0.0) -> Iterator[str]:
        """Lanes whose instant has come, each taken off the schedule; if there is one, also those
        whose instant is no further away than `gather`."""
        # Not for lanes that were left over: one that came early, and whose task the store does
        # not lease before it is due, would come again and again, and go before them.
        if self._later and self._later[0][0] <= now:
            self._ripen(now + gather)
        while self._ready:
            _, _, lane = heapq.heappop(self._ready)
            del self._when[lane]
            yield lane

    def next(self) -> float:
        """The next instant at which a lane may be asked; infinity when there is none."""
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
