"""Where the crawl begins: the mirrored directory, relays, or a file of DIDs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from trawlnet.atproto.syntax import is_did
from trawlnet.crawlers.atproto.didfile import dids_in
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.accounts.rates import PdsRates
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount, VisitPlanner
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.work import Listing, ListingKind, lane_at, visits_by_lane
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.observe.metrics.repos import RepoMeter


class MirroredDirectory(Protocol):
    """The mirrored directory, in the order of DIDs."""

    def pages(self, after: str) -> AsyncIterator[Sequence[RepoIdentity]]:
        """Everything beyond a DID that can be visited, page by page."""

    async def unhoused(self, after: str, last: str, most: int) -> Sequence[tuple[str, str]]:
        """DIDs beyond one, up to and with another, that cannot be visited, and why."""


class PlcSource:
    """A sweep over all DIDs in their order. The cursor is the last DID of a page, and empty after
    the last page: then the next run begins a new sweep, which gives what is new since, and what
    the archive does not have."""

    def __init__(
        self,
        directory: MirroredDirectory,
        census: VisitPlanner,
        archived: ArchiveCatalogue,
        rates: PdsRates,
        meter: RepoMeter,
    ) -> None:
        self._directory = directory
        self._census = census
        self._archived = archived
        self._rates = rates
        self._meter = meter
        self._last = ""  # The last DID that was named.

    def share_named(self) -> float | None:
        """Of all DIDs, going by the last one; None before the first."""
        return share_before(self._last) if self._last else None

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        # Another source in the same workspace leaves a cursor that means nothing here.
        cursor = after if after and is_did(after) else ""
        self._last = cursor
        if not cursor:
            await self._rates.begin()
        async for identities in self._directory.pages(cursor):
            if not identities:
                continue
            last = identities[-1].did
            tasks = await self._census.of_identities(identities)
            tasks += await self._vanished(cursor, identities, last)
            tasks += await self._unhoused(cursor, last)
            await self._rates.add(_by_lane(identities))
            self._meter.page_fetched(len(tasks))
            self._last = last
            yield Page(tasks, last)
            cursor = last
        if cursor:
            tasks = await self._vanished(cursor, (), _BEYOND_ALL_DIDS)
            tasks += await self._unhoused(cursor, _BEYOND_ALL_DIDS)
            yield Page(tasks, "")

    async def _unhoused(self, after: str, last: str) -> list[Task]:
        """Those that are archived are looked up instead, and only by an update."""
        found = await self._directory.unhoused(after, last, self._census.room_on_record)
        revs = await self._archived.revs(did for did, _ in found)
        tasks: list[Task] = []
        for did, why in found:
            if did not in revs:
                tasks += self._census.of_left_out(did, _UNHOUSED.get(why, f"no PDS: {why}"))
        return tasks

    async def _vanished(
        self, after: str, identities: Sequence[RepoIdentity], last: str
    ) -> list[Task]:
        if not self._census.update:
            return []
        named = {identity.did for identity in identities}
        gone = [did for did in self._archived.between(after, last) if did not in named]
        return await self._census.of_vanished(gone)


_UNHOUSED = {
    "tombstoned": "the directory reports it as deleted",
    "none": "its document names no PDS",
}
_BEYOND_ALL_DIDS = "did:~"
_PLC = "did:plc:"
_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"  # In the order of their characters, as DIDs are.


def share_before(did: str) -> float:
    """Which share of all DIDs comes before this one. Those of the directory are digests, and so
    spread evenly; others come after them, and are few."""
    if not did.startswith(_PLC):
        return 0.0 if did < _PLC else 1.0
    share = 0.0
    for place, letter in enumerate(did[len(_PLC) :][:8], start=1):
        share += max(0, _DIGITS.find(letter)) / len(_DIGITS) ** place
    return share


def _by_lane(identities: Sequence[RepoIdentity]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for identity in identities:
        try:
            found[lane_at(identity.pds)].append(identity.did)
        except ValueError:
            continue
    return found


class RelaySource:
    """One page: the first listing of each relay. All else is found by listing.

    A run that found work left over goes on with it; any other begins a new sweep.
    """

    def __init__(self, relays: Sequence[str], census: VisitPlanner, *, resuming: bool) -> None:
        self._relays = relays
        self._census = census
        self._resuming = resuming

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        mark = " ".join(("relay", *self._relays))
        if after == mark and self._resuming:
            return
        tasks = [Listing(ListingKind.HOSTS, relay).task() for relay in self._relays]
        if self._census.reopen is not None:
            await self._census.reopen([task.key for task in tasks])
        yield Page(tasks, mark)


class NoSource:
    """For a shard that owns no lane of those where a crawl begins: others find its work."""

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        return
        yield


class FileSource:
    """The DIDs of a file, all of them on every run: those that are known are left alone."""

    def __init__(
        self, path: Path, page_size: int, census: VisitPlanner, rates: PdsRates, meter: RepoMeter
    ) -> None:
        self._path = path
        self._page_size = page_size
        self._census = census
        self._rates = rates
        self._meter = meter

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        dids = dids_in(self._path)
        while page := list(islice(dids, self._page_size)):
            tasks = await self._census.of_claims(
                [ListedAccount(did) for did in dict.fromkeys(page)]
            )
            await self._rates.add(visits_by_lane(tasks))
            self._meter.page_fetched(len(tasks))
            yield Page(tasks, f"file {page[-1]}")
