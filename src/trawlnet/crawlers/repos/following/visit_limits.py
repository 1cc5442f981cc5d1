"""When a visit that a stream asks for may be: a server that breaks chains without end has no more
of its repositories fetched than so many an hour."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace

from trawlnet.crawlers.repos.following.live_state import LiveState
from trawlnet.crawlers.repos.following.live_store import LiveStore
from trawlnet.crawlers.repos.work import RepoVisit, lane_at
from trawlnet.engine.ports import Clock

MOST_HOSTS = 10_000
_MOST_FREE = 100_000  # Turns of one server that were given back.
_BURST = 0.1  # Of an hour's visits may be at once.


@dataclass(slots=True)
class _Turns:
    """Of one server."""

    used_until: float = 0.0
    free: list[float] = field(default_factory=list)  # Given back; the earliest first.


class VisitLimits:
    """One bucket per server, which refills evenly."""

    def __init__(self, per_hour: float) -> None:
        self._pause = 3600.0 / per_hour
        self._burst = max(1.0, _BURST * per_hour)
        self._turns: OrderedDict[str, _Turns] = OrderedDict()

    def next_slot(self, pds: str, at: float) -> float:
        """The instant for one more visit, at `at` or later."""
        lane = lane_at(pds)  # However a document spells it.
        turns = self._turns.setdefault(lane, _Turns())
        self._turns.move_to_end(lane)
        while len(self._turns) > MOST_HOSTS:
            self._turns.popitem(last=False)
        self._drop_late(turns, at)
        if turns.free:
            return max(at, heappop(turns.free))
        turns.used_until = max(turns.used_until, self._earliest(at)) + self._pause
        return max(at, turns.used_until)

    def earlier(self, pds: str, slot: float, at: float) -> float:
        """For whoever has this slot: the same, or one that was given back, at `at` or later."""
        turns = self._turns.get(lane_at(pds))
        if turns is None:
            return slot
        self._drop_late(turns, at)
        if not turns.free or turns.free[0] >= slot:
            return slot
        return max(at, heapreplace(turns.free, slot))

    def give_back(self, pds: str, slot: float) -> None:
        """The visit need not be any more: another has its turn."""
        turns = self._turns.get(lane_at(pds))
        if turns is not None and len(turns.free) < _MOST_FREE:
            heappush(turns.free, slot)

    def _drop_late(self, turns: _Turns, at: float) -> None:
        """Not even a burst may make up for those."""
        while turns.free and turns.free[0] <= self._earliest(at):
            heappop(turns.free)

    def _earliest(self, at: float) -> float:
        return at - self._burst * self._pause


@dataclass(frozen=True, slots=True)
class VisitTurns:
    """The limits, for visits whose server is found out on the way."""

    live: LiveStore
    limits: VisitLimits
    clock: Clock

    def state(self, did: str) -> LiveState | None:
        return self.live.states([did]).get(did)

    def elsewhere(self, visit: RepoVisit) -> float:
        """When it may be, of one that was meant for another server; 0: now. Those that a stream
        asks for are limited."""
        state = self.state(visit.did)
        if state is None or not state.needs_visit:
            return 0.0
        now = self.clock.now()
        due = self.limits.next_slot(visit.pds, now)
        return due if due > now else 0.0
