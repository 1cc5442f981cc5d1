"""One task in, one outcome out: a page of a listing, a DID's document, or a repository."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from trawlnet.archive.tombstones import Tombstone
from trawlnet.crawlers.atproto.answers import error_outcome
from trawlnet.crawlers.atproto.pages import PAGE_BYTES
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.repos.accounts.rates import PdsRates
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount, VisitPlanner
from trawlnet.crawlers.repos.listing import HostRules, listing_url, read_page
from trawlnet.crawlers.repos.visiting.visit import PackedRepo, Visitor
from trawlnet.crawlers.repos.work import (
    LeftOutAccount,
    Listing,
    ListingKind,
    RepoVisit,
    Resolution,
    is_listing,
    read_task,
    visits_by_lane,
)
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.net.client.answer import RequestLimits, outcome_of
from trawlnet.net.trouble import Trouble
from trawlnet.observe.metrics.repos import RepoMeter

_LIST = RequestLimits(total=60.0, wire=PAGE_BYTES, inflated=PAGE_BYTES)


# What a server has, with what was published of it; the time is since when a stream was missed.
Compare = Callable[[Sequence[ListedAccount], int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ReposHandler:
    http: Getter
    rules: HostRules
    census: VisitPlanner
    visitor: Visitor
    rates: PdsRates
    meter: RepoMeter
    clock: Clock
    compare: Compare | None = None  # For a crawl that follows streams.

    async def __call__(self, task: Task) -> Outcome:
        work = read_task(task)
        if isinstance(work, Listing):
            return await self._list(work, task.lane)
        if isinstance(work, Resolution):
            return await self._resolve(work)
        if isinstance(work, LeftOutAccount):
            return await self._left_out(work)
        return await self._visit(work, task)

    async def _list(self, listing: Listing, lane: str) -> Outcome:
        answer = await self.http.get(listing_url(listing), lane=lane, limits=_LIST)
        if isinstance(answer, Trouble):
            return _unread(listing, outcome_of(answer))
        if answer.reason is not Reason.OK:
            return _unread(listing, error_outcome(answer))
        page = read_page(listing, answer.body, self.rules)
        if page is None:
            return Outcome(Reason.PARSE_ERROR, detail=f"not a page of {listing.what}")
        if listing.what is ListingKind.REPOS:
            await self._count(listing, lane, [claim.did for claim in page.claims])
        if listing.since and self.compare is not None:
            await self.compare(page.claims, listing.since)
            return page.outcome(())
        tasks = await self.census.of_claims(page.claims)
        # Some live elsewhere: a server that nobody has listed is asked like one of its size, too.
        await self.rates.add(visits_by_lane(task for task in tasks if task.lane != lane))
        outcome = page.outcome(tasks)
        await self._list_again(outcome)
        return outcome

    async def _count(self, listing: Listing, lane: str, dids: Sequence[str]) -> None:
        if listing.number == 1:
            await self.rates.begin(lane)
        await self.rates.add({lane: dids})
        self.meter.page_fetched(len(dids))

    async def _list_again(self, outcome: Outcome) -> None:
        """Listings that were done in another sweep are to be done in this one, too."""
        if self.census.reopen is not None:
            await self.census.reopen([t.key for t in outcome.found if is_listing(t.key)])

    async def _left_out(self, work: LeftOutAccount) -> Outcome:
        """Asks nobody. One that can be visited by now is named by the source as such."""
        if await self.census.may_visit(work.did):
            return Outcome(Reason.OK, detail="it can be visited now")
        return Outcome(work.reason, detail=work.why)

    async def _resolve(self, resolution: Resolution) -> Outcome:
        did, asked_at = resolution.did, self.clock.now()
        found = await self.census.resolver.resolve(did)
        rev = self.census.archived.rev(did) or ""
        if isinstance(found, Outcome):
            # A web site that has gone says nothing about its owner; a directory does.
            final = found.reason is Reason.NOT_FOUND and did.startswith("did:plc:")
            return self._buried(did, found) if rev and final else found
        if not found.pds:
            outcome = Outcome(Reason.NOT_FOUND, detail="its document names no PDS")
            return self._buried(did, outcome) if rev else outcome
        tasks = await self.census.of_resolved(found, rev, asked_at)
        if not tasks:
            return Outcome(Reason.REFUSED, detail=f"its PDS is excluded by --skip-pds: {found.pds}")
        await self.rates.add({task.lane: [did] for task in tasks})
        return Outcome(Reason.OK, found=tasks)

    def _buried(self, did: str, outcome: Outcome) -> Outcome:
        stone = Tombstone(did, str(outcome.reason), int(self.clock.now() * 1e6))
        return replace(outcome, items=[stone])

    async def _visit(self, visit: RepoVisit, task: Task) -> Outcome:
        self.meter.dispatched()
        begun = self.clock.now()
        outcome = await self.visitor(visit, task)
        self.meter.repo_ended(outcome.reason, self.clock.now() - begun)
        for item in outcome.items:
            if isinstance(item, PackedRepo):
                made = item.made
                self.meter.on_packed(made.records, made.collections, len(made.block), made.dropped)
        return outcome


def _unread(listing: Listing, outcome: Outcome) -> Outcome:
    """ "There is no such thing" answers the question for an account, and for a server without a
    listing. Said of a relay's, or of a next page, it leaves a crawl without what it was to find:
    that is not done. Nor is it when the server has an address that we may not ask, or speaks of
    accounts where it was asked for its listing."""
    is_answer = outcome.reason is Reason.NOT_FOUND
    if listing.what is ListingKind.HOSTS or listing.cursor or not is_answer:
        return outcome.as_given_up("this listing was not read to the end")
    return outcome
