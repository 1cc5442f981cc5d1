"""When a visit that a stream asks for may be: a server that breaks chains without end has no more
of its repositories fetched than so many an hour."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from trawlnet.crawlers.repos.following.live_state import LiveState
from trawlnet.crawlers.repos.following.live_store import LiveStore
from trawlnet.crawlers.repos.work import RepoVisit, lane_at
from trawlnet.engine.ports import Clock

MOST_HOSTS = 10_000
_BURST = 0.1  # Of an hour's visits may be at once.


class VisitLimits:
    """One bucket per server, which refills evenly."""

    def __init__(self, per_hour: float) -> None:
        self._pause = 3600.0 / per_hour
        self._burst = max(1.0, _BURST * per_hour)
        self._used_until: OrderedDict[str, float] = OrderedDict()

    def next_slot(self, pds: str, at: float) -> float:
        """The instant for one more visit, at `at` or later."""
        earliest = at - self._burst * self._pause
        lane = lane_at(pds) if pds else ""  # However a document spells it.
        used_until = max(self._used_until.pop(lane, 0.0), earliest) + self._pause
        self._used_until[lane] = used_until
        while len(self._used_until) > MOST_HOSTS:
            self._used_until.popitem(last=False)
        return max(at, used_until)


@dataclass(frozen=True, slots=True)
class VisitTurns:
    """The limits, for visits whose server is found out on the way."""

    live: LiveStore
    limits: VisitLimits
    clock: Clock

    def state(self, did: str) -> LiveState | None:
        return self.live.states([did]).get(did)

    def at(self, pds: str) -> float:
        """When its next visit may be; 0: now."""
        now = self.clock.now()
        due = self.limits.next_slot(pds, now)
        return due if due > now else 0.0

    def elsewhere(self, visit: RepoVisit) -> float:
        """Of one that was meant for another server; those that a stream asks for are limited."""
        state = self.state(visit.did)
        return self.at(visit.pds) if state is not None and state.needs_visit else 0.0
