"""Visits that a stream asks for become tasks of the crawl, beside those of its source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from trawlnet.crawlers.repos.accounts.rates import PdsRates
from trawlnet.crawlers.repos.accounts.visit_planner import VisitPlanner
from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.live_state import INSTANT, LiveState, located, next_visit
from trawlnet.crawlers.repos.following.live_store import DueVisit, LiveChange, StreamGap
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits
from trawlnet.crawlers.repos.work import (
    Listing,
    ListingKind,
    RepoVisit,
    did_of,
    visits_by_lane,
)
from trawlnet.engine.control import Control
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Clock, Failure, Page, Store
from trawlnet.engine.task import Task

_AT_ONCE = 500
_LONGEST_WAIT = 60.0  # Seconds.
_ASKED_FOR = "requested because of a firehose message"
_SOON, _OFTEN, _LOOKS = 60.0, 600.0, 32  # Seconds, seconds, and how many in a long wait.
_FIRST = -0.5  # Score: before visits of the crawl itself, behind listings.


@dataclass(slots=True)
class SharedFrontier:
    """The store's frontier for a source, and a side door for tasks of others."""

    store: Store
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def cursor(self) -> str | None:
        return await self.store.cursor()

    async def feed(self, page: Page) -> int:
        async with self._lock:
            return await self.store.feed(page)

    async def add(self, tasks: Sequence[Task]) -> None:
        """The cursor of the source stays where it is."""
        async with self._lock:
            await self.store.feed(Page(tasks, await self.store.cursor() or ""))


@dataclass(slots=True)
class Resyncs:
    """Visits and listings that are due, from the live store to the store of tasks."""

    follower: Follower
    frontier: SharedFrontier
    planner: VisitPlanner
    rates: PdsRates
    limits: VisitLimits
    clock: Clock
    # Called with accounts of which nobody knows yet where they live.
    on_unknown: Callable[[str, LiveState], None] = lambda did, state: None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self) -> None:
        """There may be visits that were not there before."""
        self._news.set()

    async def run(self, control: Control) -> None:
        live = self.follower.parts.live
        while True:
            self._news.clear()
            tasks = await self._compare(live.gaps())
            visits = live.due(self.clock.now(), _AT_ONCE)
            if visits:
                tasks += await self._visit(visits, control)
            for task in tasks:
                control.wake(task.lane)
            if not visits:
                await self._wait(live.next_due())

    async def _wait(self, due: float | None) -> None:
        wait = _LONGEST_WAIT if due is None else min(_LONGEST_WAIT, due - self.clock.now())
        try:
            async with asyncio.timeout(max(0.0, wait)):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _compare(self, gaps: Sequence[StreamGap]) -> list[Task]:
        if not gaps:
            return []
        tasks = [_listing(gap).task() for gap in gaps]
        await self.frontier.add(tasks)
        change = LiveChange(closed=gaps, listed=[task.key for task in tasks])
        async with self.follower.lock:
            await self.follower.save(change)
        return tasks

    async def _visit(self, visits: Sequence[DueVisit], control: Control) -> list[Task]:
        """Each is asked for again, for the case that it fails or that one is under way which
        began too early. When that is due and nothing is missing, it is let go of."""
        follower = self.follower
        async with follower.lock:
            states = follower.parts.live.states(visit.did for visit in visits)
            change = LiveChange(fed=visits)
            await self._locate(states, change)
            needed = self._with_a_slot(states, change)
            tasks = await self._tasks(needed, states)
            if await self._put(tasks):
                control.look_again()
            for did in needed:
                again, due = next_visit(states[did], self.clock.now(), follower.rules.resync_pause)
                change.states[did] = again
                change.due.append(DueVisit(did, due))
            await follower.save(change)
        return tasks

    async def _locate(self, states: dict[str, LiveState], change: LiveChange) -> None:
        """Those that are hearsay take no turn anywhere before it is known where they live."""
        unknown = [did for did, state in states.items() if state.is_hearsay]
        mirrored = await self.planner.mirrored(unknown) if unknown else {}
        homes = {did: one for did, one in mirrored.items() if self.follower.is_at_home(one)}
        now = self.clock.now()
        for did in unknown:
            if (home := homes.get(did)) is not None:
                states[did] = located(states[did], home.pds, home.key, now)
                change.states[did] = states[did]
                continue
            state = states.pop(did)
            self.on_unknown(did, state)
            again, due = next_visit(state, now, self.follower.rules.resync_pause)
            change.states[did] = again
            change.due.append(DueVisit(did, due))

    def _with_a_slot(self, states: Mapping[str, LiveState], change: LiveChange) -> list[str]:
        """Those whose visit may be now; the others wait for their turn at their server. A turn is
        taken when a visit is due: one that is put off for hours keeps no other waiting. It is given
        back if nothing is missing by then. Who has no server yet needs none."""
        now, found = self.clock.now(), []
        for did, state in states.items():
            if not state.needs_visit:
                if state.has_slot and state.pds:
                    self.limits.give_back(state.pds, state.asked_at)
                if state.has_slot or state.asked_at > now:
                    # It is let go of: the next one to be asked for is not on its way yet.
                    asked_at = min(state.asked_at, now)
                    change.states[did] = structs.replace(state, asked_at=asked_at, has_slot=False)
                continue
            slot = self._slot(state, now)
            if slot < now + INSTANT:
                found.append(did)
            else:
                change.states[did] = structs.replace(state, asked_at=slot, has_slot=True)
                change.due.append(DueVisit(did, _next_look(now, slot)))
        return found

    def _slot(self, state: LiveState, now: float) -> float:
        if not state.pds:
            return now
        if state.has_slot:
            return self.limits.earlier(state.pds, state.asked_at, now)
        return self.limits.next_slot(state.pds, now)

    async def _tasks(self, dids: Sequence[str], states: Mapping[str, LiveState]) -> list[Task]:
        tasks, unknown = [], []
        for did in dids:
            state = states.get(did)
            if state is None or not state.pds:
                unknown.append(did)
            else:
                rev = state.archived if state.data else ""
                tasks.append(RepoVisit(did, state.pds, state.key, rev).task())
        tasks += await self.planner.of_unknown(unknown)
        await self.rates.add(visits_by_lane(tasks))
        return [replace(task, score=_FIRST) for task in tasks]

    async def _put(self, tasks: Sequence[Task]) -> bool:
        """Those that failed before are put back, as they are now; open ones stay as they are.
        Returns whether some are on lanes that only the store knows."""
        store, now = self.frontier.store, self.clock.now()
        # Behind the lookup of an account is its visit, which may have failed as well.
        looked_up = [did_of(task.key) for task in tasks if not task.key.startswith("did:")]
        reopened = set(await store.retry_keys(_failures([task.key for task in tasks])))
        hidden = await store.retry_keys(_failures(looked_up))
        if reopened:
            await store.settle([_anew(task, now) for task in tasks if task.key in reopened])
        await self.frontier.add(tasks)
        return bool(hidden)


_FAILURES = [reason for reason in Reason if not reason.success]


def _failures(keys: Sequence[str]) -> list[Failure]:
    """Every failure that they may have ended with."""
    return [Failure(key, "", reason, "", 0, 0.0) for key in keys for reason in _FAILURES]


def _anew(task: Task, now: float) -> Receipt:
    """The key stays open, with this task."""
    return Receipt(Task(task.key, task.lane), Reason.PARKED, next=task, detail=_ASKED_FOR, at=now)


def _next_look(now: float, slot: float) -> float:
    """Before a distant one, too: whether it is needed still, or an earlier one is free."""
    wait = slot - now
    return slot if wait < _SOON else now + min(wait / 2, max(_OFTEN, wait / _LOOKS))


def _listing(gap: StreamGap) -> Listing:
    kind = ListingKind.REPOS if gap.is_pds else ListingKind.HOSTS
    return Listing(kind, gap.url, since=max(1, int(gap.since)))
