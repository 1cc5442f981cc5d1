"""A visit to one repository: has it changed, fetch it, verify it, and make its block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from trawlnet.archive.format.repoblock import Buffer
from trawlnet.archive.tombstones import Tombstone
from trawlnet.crawlers.atproto.answers import speaks_for_account
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.accounts.locator import AccountLocator
from trawlnet.crawlers.repos.accounts.rates import PdsRates
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.visiting.bodies import Bodies
from trawlnet.crawlers.repos.visiting.fetching import BodyRoom, fetch_repo, latest_rev
from trawlnet.crawlers.repos.visiting.memory import MemoryBudget, Ticket
from trawlnet.crawlers.repos.visiting.packing import (
    CarReading,
    Doubt,
    PackOptions,
    PackRefused,
    RepoBlock,
    RepoOwner,
    is_signed,
    most_room,
    read_car,
    room_at_once,
    signed_by,
    usual_room,
)
from trawlnet.crawlers.repos.visiting.spill import Spills
from trawlnet.crawlers.repos.work import RepoVisit, lane_at
from trawlnet.engine.outcome import Again, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.net.client.answer import RequestLimits

NOT_SIGNED = "not signed by the account's key"
INACTIVE = (Reason.NOT_FOUND, Reason.DEACTIVATED, Reason.TAKENDOWN, Reason.SUSPENDED)


@dataclass(frozen=True, slots=True)
class PackedRepo:
    """A block for the archive, and the memory that it takes until it is there."""

    made: RepoBlock
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class VisitPutOff:
    """The account lives on another server, where its turn comes later."""

    did: str
    pds: str
    key: str
    at: float


@dataclass(frozen=True, slots=True)
class Visitor:
    http: Getter
    locator: AccountLocator
    rates: PdsRates
    archived: ArchiveCatalogue
    budget: MemoryBudget
    spills: Spills
    bodies: Bodies
    pool: Executor  # For what takes long.
    packing: PackOptions
    limits: RequestLimits  # Of one getRepo.
    clock: Clock
    updates: bool = False  # Whoever made a task without a rev knows that there is something new.
    # When a visit to a server that it was not meant for may be; 0: now.
    turn_at: Callable[[RepoVisit], float] = lambda visit: 0.0

    async def __call__(self, visit: RepoVisit, task: Task) -> Outcome:
        found: Outcome | RepoIdentity | None = None
        home = lane_at(visit.pds)
        # On the lane of a directory, that is to be asked first: the server had failed.
        if task.lane != home or self.locator.gate.in_trouble(home):
            # Before another failure there: whoever left a server that is gone is elsewhere.
            found = await self.locator.moved_since(visit, self.clock.now())
        if found is None:
            found = await self._try(visit, task, home)
            if isinstance(found, Outcome) and task.lane != home:
                found = replace(found, lane=found.lane or home)
        if isinstance(found, Outcome) and found.reason in INACTIVE:
            is_archived = self.archived.rev(visit.did) is not None
            now = self.clock.now()
            moved = await self.locator.moved_since(visit, now, is_archived=is_archived)
            if moved is None and is_archived:
                # It may be back: what was said before the directory was asked is not enough.
                found = await self._try(visit, task, home)
                if isinstance(found, Outcome):
                    found = replace(found, lane=found.lane or home)
            else:
                found = moved or found
        if isinstance(found, RepoIdentity):
            found = await self._follow(visit, found, task)
        return self._remembered(visit.did, found)

    async def _follow(self, visit: RepoVisit, found: RepoIdentity, task: Task) -> Outcome:
        """Once: where a document points in circles, the second answer stands."""
        there = replace(visit, pds=found.pds, key=found.key)
        lane = lane_at(there.pds)
        # A server that nobody has listed is asked like one of its size, too.
        await self.rates.add({lane: [visit.did]})
        if at := self.turn_at(there):
            put_off = VisitPutOff(visit.did, there.pds, there.key, at)
            detail = f"it waits for its turn on lane {lane}"
            return Outcome(Reason.PARKED, items=[put_off], again=Again.NEVER, detail=detail)
        outcome = await self._try(there, task, lane)
        if isinstance(outcome, RepoIdentity):
            outcome = Outcome(Reason.PARSE_ERROR, detail=NOT_SIGNED)
        return replace(outcome, lane=outcome.lane or lane)

    async def _try(self, visit: RepoVisit, task: Task, lane: str) -> Outcome | RepoIdentity:
        """What the server has, or where the account lives instead."""
        # Asked now, not when the task was made: there may be a tombstone over it since.
        # Two tasks may name one account: the second need not fetch it.
        is_asked = bool(visit.rev) or not self.updates
        if is_asked and (archived := self.archived.rev(visit.did)) is not None:
            latest = await latest_rev(self.http, visit.pds, visit.did, lane)
            if isinstance(latest, Outcome):
                return latest
            if latest == archived:
                return Outcome(Reason.NOT_MODIFIED)
        found = await self._fetch(visit, lane)
        if isinstance(found, Outcome) and task.attempt and _lacks_blocks(found):
            # It lacks the same twice: no write was in the way.
            return replace(found, reason=Reason.PARSE_ERROR)
        return found

    async def _fetch(self, visit: RepoVisit, lane: str) -> Outcome | RepoIdentity:
        ticket = self.budget.ticket()
        try:
            room = BodyRoom(ticket, self.spills, self.bodies)
            car = await fetch_repo(self.http, visit.pds, visit.did, lane, self.limits, room)
            if isinstance(car, Outcome):
                made: RepoBlock | Outcome | RepoIdentity = car
            else:
                made = await self._make(car, visit, ticket)
                self.bodies.give_back(car)  # Not after a cancel: a thread may still be reading.
            if isinstance(made, RepoBlock):
                ticket.settle_at(len(made.block))
                return Outcome(Reason.OK, items=[PackedRepo(made, ticket)])
        except BaseException:
            ticket.close()
            raise
        ticket.close()
        return made

    async def _make(
        self, car: Buffer, visit: RepoVisit, ticket: Ticket
    ) -> RepoBlock | Outcome | RepoIdentity:
        whose = RepoOwner(visit.did, visit.pds, visit.key, int(self.clock.now() * 1e6))
        room = room_at_once(car, self.packing)
        if room is not None:
            await ticket.begin(len(car))  # Its block takes less; the rest is over in an instant.
            read = read_car(CarReading(car, whose, self.packing, room))
        else:
            read = await self._read(car, whose, usual_room(car, self.packing), ticket)
        if isinstance(read, PackRefused) and read.cramped:
            read = await self._read(car, whose, most_room(car, self.packing), ticket)
        made = await self._second_look(read, whose) if isinstance(read, Doubt) else read
        return made.outcome() if isinstance(made, PackRefused) else made

    async def _read(
        self, car: Buffer, whose: RepoOwner, room: int, ticket: Ticket
    ) -> RepoBlock | Doubt | PackRefused:
        await ticket.begin(room)
        reading = CarReading(car, whose, self.packing, room)
        return await asyncio.get_running_loop().run_in_executor(self.pool, read_car, reading)

    async def _second_look(
        self, doubt: Doubt, whose: RepoOwner
    ) -> RepoBlock | PackRefused | Outcome | RepoIdentity:
        """The key may be newer than what we were told: ask once more before refusing."""
        identity = await self.locator.resolved(whose.did)
        if isinstance(identity, Outcome):
            return replace(identity, detail=f"no key to verify with: {identity.detail}")
        if is_signed(doubt, identity.key):
            return signed_by(doubt.block, identity.key)
        if identity.pds not in ("", whose.pds):
            return identity
        return PackRefused(Reason.PARSE_ERROR, NOT_SIGNED)

    def _remembered(self, did: str, outcome: Outcome) -> Outcome:
        """What is archived and no longer shown gets a tombstone."""
        if outcome.reason not in INACTIVE or not speaks_for_account(outcome):
            return outcome
        if self.archived.rev(did) is not None:
            stone = Tombstone(did, str(outcome.reason), int(self.clock.now() * 1e6))
            return replace(outcome, items=[stone])
        return outcome


def _lacks_blocks(outcome: Outcome) -> bool:
    return outcome.reason is Reason.TRUNCATED and outcome.detail.startswith("missing_block")
