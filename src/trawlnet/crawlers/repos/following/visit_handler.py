"""The handler of a crawl that follows: every visit that got an answer tells the stream of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from trawlnet.crawlers.atproto.answers import speaks_for_account
from trawlnet.crawlers.repos.following.live_state import LiveState
from trawlnet.crawlers.repos.following.visit_limits import VisitTurns
from trawlnet.crawlers.repos.following.visit_sink import ListingCompared, VisitBegun, VisitEnded
from trawlnet.crawlers.repos.visiting.visit import INACTIVE
from trawlnet.crawlers.repos.work import (
    Listing,
    ListingKind,
    RepoVisit,
    did_of,
    is_listing,
    read_task,
)
from trawlnet.engine.outcome import Again, Outcome, Reason
from trawlnet.engine.ports import Handler
from trawlnet.engine.task import Task

_READ = (Reason.OK, Reason.LOOP, Reason.NOT_FOUND)  # A listing has been read, or there is none.


@dataclass(frozen=True, slots=True)
class VisitHandler:
    handler: Handler[Any]
    turns: VisitTurns

    async def __call__(self, task: Task) -> Outcome[Any]:
        begun = self.turns.clock.now()
        outcome = await self.handler(self._in_doubt(task))
        if is_listing(task.key):
            return _compared(task, outcome)
        did = did_of(task.key)
        if not did.startswith("did:"):
            return outcome
        if not outcome.items and _is_answer(task, outcome):
            ended = VisitEnded(did, outcome.reason)
            return replace(outcome, items=[VisitBegun(did, begun), ended])
        if outcome.items:
            return replace(outcome, items=[VisitBegun(did, begun), *outcome.items])
        if outcome.found and not task.key.startswith("did:"):
            # Its document was read: only now is it known whose visit it is.
            return replace(outcome, found=[self._planned(one) for one in outcome.found])
        return outcome

    def _in_doubt(self, task: Task) -> Task:
        """Where an account lives, and was looked up before the stream last named it, may not be so
        any more."""
        visit = read_task(task)
        if not isinstance(visit, RepoVisit) or not visit.resolved_at:
            return task
        state = self.turns.state(visit.did)
        if state is None or state.missed_at < visit.resolved_at:
            return task
        return task.carrying(replace(visit, resolved_at=0).task().payload)

    def _planned(self, task: Task) -> Task:
        visit = read_task(task)
        if not isinstance(visit, RepoVisit):
            return task
        state = self.turns.state(visit.did)
        if state is None:
            return task
        # One that a stream named is looked up beside the crawl: this is a visit of the crawl's own.
        due = 0.0 if state.is_hearsay else self.turns.elsewhere(visit)
        return replace(_visit(visit, state), due=due)


def _compared(task: Task, outcome: Outcome[Any]) -> Outcome[Any]:
    """What was missed of a stream is compared when its server is back, a day later if need be."""
    work = read_task(task)
    if not isinstance(work, Listing) or not work.since:
        return outcome
    if outcome.reason not in _READ:
        return replace(outcome, again=Again.PATIENT)
    # Whatever a comparison finds is a further page of it.
    found = tuple(one.key for one in outcome.found)
    # One that runs in circles, or is not there, has no end: nobody is missing in it.
    is_end = outcome.reason is Reason.OK and not found and work.what is ListingKind.REPOS
    page = ListingCompared(task.key, found, task.lane if is_end else "", work.since)
    return replace(outcome, items=[page])


def _is_answer(task: Task, outcome: Outcome[Any]) -> bool:
    """Whether it says something about the account. Any web server says that nothing is there."""
    if outcome.reason is Reason.NOT_MODIFIED:
        return True
    if outcome.reason not in INACTIVE:
        return False
    # A directory that has no document speaks for its accounts, a web site does not.
    is_of_directory = task.key != did_of(task.key) and did_of(task.key).startswith("did:plc:")
    return speaks_for_account(outcome) or is_of_directory


def _visit(visit: RepoVisit, state: LiveState) -> Task:
    """One whose archived block is of no use to the stream is fetched in any case."""
    return (visit if state.data else replace(visit, rev="")).task()
