"""A visit to one repository: has it changed, fetch it, verify it, and make its block."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from trawlnet.archive.tombstones import Tombstone
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.repos.archived import Archived
from trawlnet.crawlers.repos.budget import MemoryBudget, Ticket
from trawlnet.crawlers.repos.fetching import fetch_repo, latest_rev
from trawlnet.crawlers.repos.identity import Identity, Resolver
from trawlnet.crawlers.repos.making import (
    Doubt,
    Recipe,
    Refused,
    RepoBlock,
    Whose,
    is_signed,
    make_block,
    read_car,
)
from trawlnet.crawlers.repos.work import RepoVisit
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.net.answer import Limits
from trawlnet.net.lane import lane_of

INACTIVE = (Reason.NOT_FOUND, Reason.DEACTIVATED, Reason.TAKENDOWN, Reason.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A block for the archive, and the memory that it takes until it is there."""

    made: RepoBlock
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Visitor:
    http: Getter
    resolver: Resolver
    archived: Archived
    budget: MemoryBudget
    pool: Executor  # For what takes long.
    recipe: Recipe
    limits: Limits  # Of one getRepo.
    clock: Clock

    async def __call__(self, visit: RepoVisit, task: Task) -> Outcome:
        # Asked now, not when the task was made: there may be a tombstone over it since.
        if visit.rev and (archived := self.archived.rev(visit.did)) is not None:
            latest = await latest_rev(self.http, visit.pds, visit.did, task.lane)
            if isinstance(latest, Outcome):
                return self._remembered(visit.did, latest)
            if latest == archived:
                return Outcome(Reason.NOT_MODIFIED)
        outcome = await self._fetch(visit, task.lane)
        if outcome.reason is Reason.TRUNCATED and task.attempt and _was_whole(outcome):
            # It lacks the same twice: no write was in the way.
            outcome = replace(outcome, reason=Reason.PARSE_ERROR)
        return self._remembered(visit.did, outcome)

    async def _fetch(self, visit: RepoVisit, lane: str) -> Outcome:
        ticket = self.budget.ticket()
        try:
            car = await fetch_repo(self.http, visit.pds, visit.did, lane, self.limits, ticket)
            made = car if isinstance(car, Outcome) else await self._make(car, visit, ticket)
            if isinstance(made, RepoBlock):
                ticket.settle_at(len(made.block))
                return Outcome(Reason.OK, items=[Fetched(made, ticket)])
        except BaseException:
            ticket.close()
            raise
        ticket.close()
        return made

    async def _make(self, car: bytearray, visit: RepoVisit, ticket: Ticket) -> RepoBlock | Outcome:
        await ticket.grow(len(car))  # Its records as JSON take about as much again.
        whose = Whose(visit.did, visit.pds, visit.key, int(self.clock.now() * 1e6))
        loop = asyncio.get_running_loop()
        read = await loop.run_in_executor(self.pool, read_car, car, whose, self.recipe)
        made = await self._second_look(read, whose) if isinstance(read, Doubt) else read
        return made.outcome() if isinstance(made, Refused) else made

    async def _second_look(self, doubt: Doubt, whose: Whose) -> RepoBlock | Refused | Outcome:
        """The key may be newer than what we were told: ask once more before refusing."""
        identity = await self._resolved(whose.did)
        if isinstance(identity, Outcome):
            return replace(identity, detail=f"no key to verify with: {identity.detail}")
        if not is_signed(doubt.content, identity.key):
            moved = f"; it lives on {identity.pds}" if identity.pds != whose.pds else ""
            return Refused(Reason.PARSE_ERROR, f"not signed by the account's key{moved}")
        loop = asyncio.get_running_loop()
        content = doubt.content
        return await loop.run_in_executor(self.pool, make_block, content, whose, self.recipe)

    async def _resolved(self, did: str) -> Identity | Outcome:
        """Trouble is told of the directory, not of the PDS."""
        try:
            found = await self.resolver.resolve(did)
        except LaneParked as parked:
            if parked.until < math.inf:
                raise
            return Outcome(Reason.UNAVAILABLE, lane=parked.lane, detail="the directory is blocked")
        if isinstance(found, Outcome) and not found.lane:
            return replace(found, lane=lane_of(self.resolver.directory_of(did)))
        return found

    def _remembered(self, did: str, outcome: Outcome) -> Outcome:
        """What is archived and no longer shown gets a tombstone."""
        if outcome.reason in INACTIVE and self.archived.rev(did) is not None:
            stone = Tombstone(did, str(outcome.reason), int(self.clock.now() * 1e6))
            return replace(outcome, items=[stone])
        return outcome


def _was_whole(outcome: Outcome) -> bool:
    return outcome.detail.startswith("missing_block")
