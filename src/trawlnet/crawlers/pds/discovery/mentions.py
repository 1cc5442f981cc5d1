"""PDSes of mentioned accounts: each DID is looked up, and its answer is cached for a day."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from trawlnet.crawlers.atproto.identity import resolve
from trawlnet.crawlers.pds.discovery.asking import patiently
from trawlnet.crawlers.pds.discovery.finding import DiscoveryCounts, Finder
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.rules import RetryPolicy
from trawlnet.tables.registry.notes import DidLookup
from trawlnet.tables.registry.rules import FoundPds, PdsSource
from trawlnet.tables.scanned.scanned import Scanned

_AT_ONCE = 10  # DIDs looked up at the same time.
_PAGE = 500  # Accounts between two saved marks of their lookup.
_MOST_OF_A_ROUND = 50_000  # Three hours at the usual rate of the directory; the rest comes later.
_ASKED_AGAIN = 30 * 86_400.0  # Seconds until a mentioned account is looked up again.
_BELIEVED = 86_400.0  # Seconds for which an answer is cached,
_RETRIED = 3_600.0  # and for which a failure is.
_POLICY = RetryPolicy(attempts=2, patience=10, base=0.5, cap=60.0)
_NO_PDS = "no_pds"
# Failures of the DID itself; any other failure may be temporary.
_ANSWERS = frozenset((str(Reason.NOT_FOUND), str(Reason.REFUSED), _NO_PDS))


async def from_dids(
    finder: Finder, dids: Iterable[str], plc_url: str, tally: DiscoveryCounts
) -> None:
    rest = iter(dids)
    while batch := list(dict.fromkeys(islice(rest, _AT_ONCE))):
        known = await _remembered(finder, batch)
        asked = await _looked_up(finder, [did for did in batch if did not in known], plc_url)
        await finder.registry.notes.save_lookups(asked)
        await finder.tell(tally, _founds(known.values(), tally, is_news=False))
        await finder.tell(tally, _founds(asked, tally, is_news=True))


async def from_records(finder: Finder, plc_url: str, tally: DiscoveryCounts) -> None:
    """Accounts that indexed records mention, each looked up from time to time."""
    tables, after, left = Scanned(finder.registry.db), "", _MOST_OF_A_ROUND
    await tables.migrate()
    since = finder.clock.now() - _ASKED_AGAIN
    while dids := await tables.mentions(after, since, min(left, _PAGE)):
        await from_dids(finder, dids, plc_url, tally)
        await tables.note_asked(dids, finder.clock.now())
        after, left = dids[-1], left - len(dids)


async def _remembered(finder: Finder, dids: Sequence[str]) -> dict[str, DidLookup]:
    now = finder.clock.now()
    lookups = await finder.registry.notes.lookups(dids)
    return {did: one for did, one in lookups.items() if one.asked_at > now - _lasting(one)}


def _lasting(lookup: DidLookup) -> float:
    return _BELIEVED if lookup.pds or lookup.reason in _ANSWERS else _RETRIED


async def _looked_up(finder: Finder, dids: Sequence[str], plc_url: str) -> list[DidLookup]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_lookup(finder, did, plc_url)) for did in dids]
    return [task.result() for task in tasks]


async def _lookup(finder: Finder, did: str, plc_url: str) -> DidLookup:
    ask = partial(resolve, finder.http, did, plc_url, allow_private=finder.allow_private)
    answer = await patiently(ask, did, finder.clock, _POLICY)
    now = finder.clock.now()
    if isinstance(answer, Outcome):
        return DidLookup(did, "", str(answer.reason), now)
    if answer.pds_refused:
        return DidLookup(did, "", f"{_REFUSED}{answer.pds_refused}", now)
    return DidLookup(did, answer.pds, "" if answer.pds else _NO_PDS, now)


_REFUSED = "pds:"  # Prefix of the reason why a document's endpoint is refused.


def _founds(
    lookups: Iterable[DidLookup], tally: DiscoveryCounts, *, is_news: bool
) -> list[FoundPds]:
    founds = []
    for lookup in lookups:
        if lookup.pds:
            founds.append(FoundPds(lookup.pds, PdsSource.DID, is_news=is_news))
        elif lookup.reason.startswith(_REFUSED):
            tally.refuse(lookup.did, lookup.reason.removeprefix(_REFUSED))
        else:
            tally.unresolved[lookup.reason] += 1
    return founds
