"""Which of the accounts that somebody names are visited, and where: the DID decides, not the
server that lists it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from trawlnet.crawlers.repos.archived import Archived
from trawlnet.crawlers.repos.identity import Identity, Mirror, Resolver
from trawlnet.crawlers.repos.work import RepoVisit, Resolution, lane_at, unresolvable
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task

_AT_ONCE = 2000  # Accounts of a page; then others may run.

# Makes keys that are done unknown again, so that they can be given once more.
Reopen = Callable[[Sequence[str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody says that this account is there."""

    did: str
    pds: str = ""  # URL of the server that says so; empty: nobody said where.
    rev: str = ""  # That the repository is said to have; empty: not said.
    active: bool = True


@dataclass(frozen=True, slots=True)
class Census:
    """Turns accounts into tasks."""

    archived: Archived
    resolver: Resolver
    mirror: Mirror | None
    skip: frozenset[str]  # Lanes.
    update: bool
    clock: Clock
    reopen: Reopen | None = None
    left_out: Counter[str] = field(default_factory=Counter)  # By why.

    async def of_claims(self, claims: Sequence[Claim]) -> list[Task]:
        revs = await self.archived.revs(claim.did for claim in claims)
        due = [claim for claim in claims if self._is_due(claim, revs.get(claim.did))]
        self.left_out["archived"] += len(claims) - len(due)
        states = await self.mirror.states([claim.did for claim in due]) if self.mirror else {}
        tasks = [self._task(claim, states.get(claim.did), revs) for claim in due]
        return await self._given_again([task for task in tasks if task is not None])

    async def of_identities(self, identities: Sequence[Identity]) -> list[Task]:
        """Accounts that a directory names, with all that is to be known."""
        revs = await self.archived.revs(identity.did for identity in identities)
        tasks = []
        for number, identity in enumerate(identities):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            rev = revs.get(identity.did, "")
            if rev and not self.update:
                self.left_out["archived"] += 1
            elif (task := self._visit(identity, rev)) is not None:
                tasks.append(task)
        return await self._given_again(tasks)

    async def of_vanished(self, dids: Iterable[str]) -> list[Task]:
        """Archived accounts that a directory no longer names: what has become of them?"""
        return await self._given_again([self._resolution(did) for did in dids])

    async def of_resolved(self, identity: Identity, rev: str) -> list[Task]:
        """One account whose document was asked for; `rev` if it is archived."""
        task = self._visit(identity, rev)
        return await self._given_again([] if task is None else [task])

    def _visit(self, identity: Identity, rev: str = "") -> Task | None:
        try:
            visit = RepoVisit(identity.did, identity.pds, identity.key, rev, int(self.clock.now()))
            task = visit.task()
        except ValueError:
            self.left_out["no_pds"] += 1
            return None
        if task.lane in self.skip:
            self.left_out["skipped"] += 1
            return None
        return task

    def _is_due(self, claim: Claim, archived: str | None) -> bool:
        if archived is None:
            return True
        return self.update and not (claim.active and claim.rev == archived)

    def _task(self, claim: Claim, state: Identity | None, revs: dict[str, str]) -> Task | None:
        if state is None:
            return self._resolution(claim.did)
        if claim.pds and (not state.pds or lane_at(state.pds) != lane_at(claim.pds)):
            self.left_out["lives_elsewhere"] += 1
            return None
        # A rev that was told differs from the archived one: no need to ask for it again.
        task = self._visit(state, "" if claim.rev else revs.get(claim.did, ""))
        if task is None and not claim.pds:
            # The user named it: looking it up puts on record why it is not visited.
            return self._resolution(claim.did)
        return task

    def _resolution(self, did: str) -> Task:
        try:
            return Resolution(did, self.resolver.directory_of(did)).task()
        except ValueError:
            self.left_out["unresolvable"] += 1
            return unresolvable(did)

    async def _given_again(self, tasks: list[Task]) -> list[Task]:
        if self.update and self.reopen is not None and tasks:
            await self.reopen([task.key for task in tasks])
        return tasks
