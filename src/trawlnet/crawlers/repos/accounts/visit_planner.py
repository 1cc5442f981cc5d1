"""Which of the accounts that somebody names are visited, and where: the DID decides, not the
server that lists it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trawlnet.crawlers.repos.accounts.identity import Mirror, RepoIdentity, Resolver
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.work import (
    LeftOutAccount,
    RepoVisit,
    Resolution,
    lane_at,
    unresolvable,
)
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task

_AT_ONCE = 2000  # Accounts of a page; then others may run.
LEFT_OUT_AT_MOST = 100_000  # Accounts of one run that are put on record without a visit.

# Makes keys that are done unknown again, so that they can be given once more.
Reopen = Callable[[Sequence[str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ListedAccount:
    """Somebody says that this account is there."""

    did: str
    pds: str = ""  # URL of the server that says so; empty: nobody said where.
    rev: str = ""  # That the repository is said to have; empty: not said.
    active: bool = True


@dataclass(frozen=True, slots=True)
class VisitPlanner:
    """Turns accounts into tasks."""

    archived: ArchiveCatalogue
    resolver: Resolver
    mirror: Mirror | None
    skip: frozenset[str]  # Lanes.
    update: bool
    clock: Clock
    reopen: Reopen | None = None
    left_out: Counter[str] = field(default_factory=Counter)  # By why.
    # Put on record in this run and not asked about since: as a directory has just named them.
    just_left_out: set[str] = field(default_factory=set)

    async def of_claims(self, claims: Sequence[ListedAccount]) -> list[Task]:
        revs = await self.archived.revs(claim.did for claim in claims)
        due = [claim for claim in claims if self._is_due(claim, revs.get(claim.did))]
        self.left_out["archived"] += len(claims) - len(due)
        states = await self.mirror.states([claim.did for claim in due]) if self.mirror else {}
        tasks: list[Task] = []
        for claim in due:
            tasks += self._tasks(claim, states.get(claim.did), revs)
        return await self._given_again(tasks)

    async def of_identities(self, identities: Sequence[RepoIdentity]) -> list[Task]:
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
            else:
                tasks += self._not_visited(identity)
        return await self._given_again(tasks)

    async def may_visit(self, did: str) -> bool:
        """Whether the mirror names a server for it that is not left alone. A query takes
        milliseconds: there is none for one that was put on record a moment ago."""
        if did in self.just_left_out:
            self.just_left_out.remove(did)
            return False
        state = (await self.mirror.states([did])).get(did) if self.mirror else None
        return state is not None and self._refusal(state) is None

    def of_left_out(self, did: str, why: str) -> list[Task]:
        """One that a directory names without a server, for the record; or none if enough are."""
        return self._on_record(LeftOutAccount(did, Reason.NOT_FOUND, why))

    async def mirrored(self, dids: Sequence[str]) -> Mapping[str, RepoIdentity]:
        """Of those that the mirror knows."""
        return await self.mirror.states(dids) if self.mirror else {}

    def is_visited(self, identity: RepoIdentity) -> bool:
        """Whether it has a server that is not left alone."""
        return self._refusal(identity) is None

    async def of_unknown(self, dids: Sequence[str]) -> list[Task]:
        """Accounts to visit wherever they live, archived or not."""
        states = await self.mirror.states(dids) if self.mirror else {}
        visits = [self._visit(states[did]) if did in states else None for did in dids]
        return [
            self._resolution(did) if task is None else task
            for did, task in zip(dids, visits, strict=True)
        ]

    async def of_vanished(self, dids: Iterable[str]) -> list[Task]:
        """Archived accounts that a directory no longer names: what has become of them?"""
        return await self._given_again([self._resolution(did) for did in dids])

    async def of_resolved(self, identity: RepoIdentity, rev: str, asked_at: float) -> list[Task]:
        """One account whose document was asked for then; `rev` if it is archived."""
        task = self._visit(identity, rev, asked_at)
        return await self._given_again([] if task is None else [task])

    def _visit(
        self, identity: RepoIdentity, rev: str = "", asked_at: float | None = None
    ) -> Task | None:
        if self._refusal(identity) is not None:
            return None
        resolved_at = int(self.clock.now() if asked_at is None else asked_at)
        visit = RepoVisit(identity.did, identity.pds, identity.key, rev, resolved_at)
        return visit.task()

    def _refusal(self, identity: RepoIdentity) -> LeftOutAccount | None:
        """Why the account is not visited."""
        try:
            lane = lane_at(identity.pds)
        except ValueError:
            return LeftOutAccount(identity.did, Reason.NOT_FOUND, "its document names no PDS")
        if lane in self.skip:
            why = f"its PDS is excluded by --skip-pds: {identity.pds}"
            return LeftOutAccount(identity.did, Reason.REFUSED, why)
        return None

    def _not_visited(self, identity: RepoIdentity) -> list[Task]:
        refused = self._refusal(identity)
        return [] if refused is None else self._on_record(refused)

    def _on_record(self, one: LeftOutAccount) -> list[Task]:
        """Beyond so many they are counted only: a directory names millions that are gone."""
        has_room = self.room_on_record > 0
        self.left_out["skipped" if one.reason is Reason.REFUSED else "no_pds"] += 1
        if has_room:
            self.just_left_out.add(one.did)
        return [one.task()] if has_room else []

    @property
    def room_on_record(self) -> int:
        return LEFT_OUT_AT_MOST - self.left_out["skipped"] - self.left_out["no_pds"]

    def _is_due(self, claim: ListedAccount, archived: str | None) -> bool:
        if archived is None:
            return True
        return self.update and not (claim.active and claim.rev == archived)

    def _tasks(
        self, claim: ListedAccount, state: RepoIdentity | None, revs: dict[str, str]
    ) -> list[Task]:
        if state is None:
            return [self._resolution(claim.did)]
        # Visited where it lives, whoever lists it: its own server may not be known otherwise. A
        # rev that its server told differs from the archived one: no need to ask for it again.
        told = claim.rev and state.pds and lane_at(state.pds) == lane_at(claim.pds)
        task = self._visit(state, "" if told else revs.get(claim.did, ""))
        if task is not None:
            return [task]
        if not claim.pds:
            # The user named it: looking it up puts on record why it is not visited.
            return [self._resolution(claim.did)]
        return self._not_visited(state)

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
