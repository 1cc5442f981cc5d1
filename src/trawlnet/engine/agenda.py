"""What is to be done: which lanes have work, about how much, and when each may be asked."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping

from trawlnet.engine.gate import Gate
from trawlnet.engine.schedule import Schedule

_LONGEST = 100  # Lanes with most tasks: one of them takes longest.


class Agenda:
    def __init__(
        self,
        gate: Gate,
        capacity: int,
        ahead: float,
        owns: Callable[[str], bool],
        busy: Mapping[str, int],
    ) -> None:
        """At most `capacity` lanes, each looked at so long before the gate lets it pass; `busy`
        is how many tasks are being worked on, by lane."""
        self._gate = gate
        self._capacity = capacity
        self._ahead = ahead
        self._owns = owns
        self._busy = busy
        self._queued: Counter[str] = Counter()  # About so many tasks wait on each lane.
        self._full: set[str] = set()  # Lanes with work but no room for another task.
        self.schedule = Schedule(capacity, self.work_left)

    def note(self, lane: str, due: float) -> None:
        """The lane has work at `due`: look at it then, or shortly before the gate lets it pass."""
        if self._owns(lane):
            self.schedule.add(lane, max(due, self._gate.ready_at(lane) - self._ahead))

    def hasten(self, lane: str) -> None:
        """The gate lets it pass sooner than it said when the lane was noted."""
        if lane in self.schedule:
            self.note(lane, 0.0)

    def queued(self, lane: str) -> int:
        return self._queued[lane]

    def count(self, lane: str, tasks: int) -> None:
        """So many more tasks wait there. Known ones may be among them: who finds the lane empty
        puts that right."""
        if lane in self._queued or len(self._queued) < self._capacity:
            self._queued[lane] += tasks

    def took(self, lane: str, *, emptied: bool) -> None:
        """One of them began; `emptied`: it was the last."""
        self._queued[lane] -= 1
        if emptied or self._queued[lane] <= 0:
            del self._queued[lane]

    def wait_for_room(self, lane: str) -> None:
        """It has work, and is looked at again when a task of its own ends."""
        self._full.add(lane)

    def made_room(self, lane: str) -> bool:
        """A task of the lane ended: whether it had work and no room for it."""
        if lane not in self._full:
            return False
        self._full.discard(lane)
        self.note(lane, 0.0)
        return True

    def work_left(self, lane: str) -> float:
        """Seconds that the lane needs at least for what waits on it."""
        return self._queued[lane] * self._gate.interval(lane)

    def with_work(self) -> int:
        at_work = self._busy.keys() | self._full
        return len(at_work) + self.schedule.lanes_besides(at_work)

    def longest(self) -> float:
        gate = self._gate
        most = heapq.nlargest(_LONGEST, self._queued, self._queued.__getitem__)
        return max([self.work_left(lane) for lane in most if not gate.blocked(lane)], default=0.0)
