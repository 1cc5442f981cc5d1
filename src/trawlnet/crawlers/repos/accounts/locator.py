"""Accounts move: where one lives now, when what we were told may be out of date."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from trawlnet.crawlers.repos.accounts.identity import Mirror, RepoIdentity, Resolver
from trawlnet.crawlers.repos.work import RepoVisit
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.net.lane import lane_of

_FIRST_GUESS = 1.0  # Seconds that a lookup takes, until some have been measured.
_SHARE = 0.2  # Of the estimate that each measured lookup makes up.


class LookupSlots:
    """Each lookup holds a worker, and the turn at its PDS is over. Whoever finds all slots taken
    is given an instant of their own to come back at: at one and the same for all, most would be
    turned away again, time after time, each after another request to their PDS."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._taken = 0
        self._seconds = _FIRST_GUESS
        self._promised = 0.0  # All slots are promised until then.

    def wait(self) -> float:
        """Seconds after which a slot is likely to be free for this one; 0 if one is now."""
        if self._taken < self._most:
            return 0.0
        now = self._clock.now()
        self._promised = max(self._promised, now) + self._seconds / self._most
        return self._promised - now

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        begun = self._clock.now()
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
            took = self._clock.now() - begun
            self._seconds += _SHARE * (took - self._seconds)


_DIRECTORY = "of the directory"


@dataclass(frozen=True, slots=True)
class AccountLocator:
    resolver: Resolver
    mirror: Mirror | None
    stale_after: float  # Seconds.
    clock: Clock
    gate: Gate
    slots: LookupSlots

    async def moved_since(
        self, visit: RepoVisit, now: float, *, is_archived: bool = False
    ) -> RepoIdentity | Outcome | None:
        """Where the account went, for a server that no longer shows it; or that the directory
        wants to be asked later. A server that an account left says that it is switched off; only
        old tasks can be about such a one. What is archived would be withdrawn: then the directory
        itself, and not an old mirror, has to say first that the account has not moved."""
        if not is_archived and now - visit.resolved_at < self.stale_after:
            return None
        found = await self._looked_up(visit, is_archived)
        if isinstance(found, Outcome):
            if found.reason is Reason.RATE_LIMITED:
                return found
            if is_archived and found.reason.blame is Blame.LANE:
                return found
            # The server's answer stands, and is what the task ends with: this is all that the
            # gate hears of the directory.
            self.gate.observe(found.lane, found)
            return None
        return found if _is_elsewhere(found, visit) else None

    async def resolved(self, did: str) -> RepoIdentity | Outcome:
        """From the directory itself; trouble is told of the directory, not of the PDS. Raises
        LaneParked when so many ask it that others would wait."""
        if wait := self.slots.wait():
            raise LaneParked(_DIRECTORY, self.clock.now() + wait)
        try:
            async with self.slots.taken():
                found = await self.resolver.resolve(did)
        except LaneParked as parked:
            if parked.until < math.inf:
                raise
            return Outcome(Reason.UNAVAILABLE, lane=parked.lane, detail="the directory is blocked")
        if isinstance(found, Outcome) and found.lane:
            return found
        lane = lane_of(self.resolver.directory_of(did))
        if isinstance(found, Outcome):
            return replace(found, lane=lane)
        # The task ends with what its own server said: nobody else tells the gate of this answer.
        self.gate.observe(lane, Outcome(Reason.OK))
        return found

    async def _looked_up(self, visit: RepoVisit, is_archived: bool) -> RepoIdentity | Outcome:
        if self.mirror is not None:
            state = (await self.mirror.states([visit.did])).get(visit.did)
            if state is not None and (not is_archived or _is_elsewhere(state, visit)):
                return state
        return await self.resolved(visit.did)


def _is_elsewhere(account: RepoIdentity, visit: RepoVisit) -> bool:
    return bool(account.pds) and lane_of(account.pds) != lane_of(visit.pds)
