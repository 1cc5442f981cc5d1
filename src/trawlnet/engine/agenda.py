"""The agenda: which lanes have work, about how much, and when each may send its next request."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping

from trawlnet.engine.gate import Gate
from trawlnet.engine.schedule import Schedule

_LONGEST = 100  # Lanes with the most tasks; one of them takes longest.


class Agenda:
    def __init__(
        self,
        gate: Gate,
        capacity: int,
        ahead: float,
        owns: Callable[[str], bool],
        busy: Mapping[str, int],
    ) -> None:
        """At most `capacity` lanes; each is looked at `ahead` seconds before the gate lets it
        pass. `busy` is the number of running tasks, by lane."""
        self._gate = gate
        self._capacity = capacity
        self._ahead = ahead
        self._owns = owns
        self._busy = busy
        self._queued: Counter[str] = Counter()  # Tasks that wait on each lane, an estimate.
        self._full: set[str] = set()  # Lanes with work but no room for another task.
        self.schedule = Schedule(capacity, self.work_left)

    def note(self, lane: str, due: float) -> None:
        """The lane has work at `due`: look at it then, or shortly before the gate lets it pass."""
        if self._owns(lane):
            self.schedule.add(lane, max(due, self._gate.ready_at(lane) - self._ahead))

    def hasten(self, lane: str) -> None:
        """The gate lets the lane pass sooner than when the lane was noted."""
        if lane in self.schedule:
            self.note(lane, 0.0)

    def queued(self, lane: str) -> int:
        return self._queued[lane]

    def count(self, lane: str, tasks: int) -> None:
        """Add `tasks` waiting tasks. Known ones may be among them; `took` corrects the number when
        the lane is empty."""
        if lane in self._queued or len(self._queued) < self._capacity:
            self._queued[lane] += tasks

    def took(self, lane: str, *, emptied: bool) -> None:
        """A task of the lane was started; `emptied`: it was the last."""
        self._queued[lane] -= 1
        if emptied or self._queued[lane] <= 0:
            del self._queued[lane]

    def wait_for_room(self, lane: str) -> None:
        """The lane has work, and is looked at again when one of its tasks ends."""
        self._full.add(lane)

    def made_room(self, lane: str) -> bool:
        """A task of the lane ended; returns whether the lane was waiting for room."""
        if lane not in self._full:
            return False
        self._full.discard(lane)
        self.note(lane, 0.0)
        return True

    def work_left(self, lane: str) -> float:
        """The least time, in seconds, that the lane needs for its waiting tasks."""
        return self._queued[lane] * self._gate.interval(lane)

    def with_work(self) -> int:
        at_work = self._busy.keys() | self._full
        return len(at_work) + self.schedule.lanes_besides(at_work)

    def longest(self) -> float:
        gate = self._gate
        most = heapq.nlargest(_LONGEST, self._queued, self._queued.__getitem__)
        return max([self.work_left(lane) for lane in most if not gate.blocked(lane)], default=0.0)
