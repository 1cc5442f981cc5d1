"""Whether accounts live where a long listing names them: one without an end has to invent them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from trawlnet.crawlers.pds.scanning.ending import SliceEnd, failed
from trawlnet.crawlers.pds.scanning.residence import Residence, residence_of
from trawlnet.crawlers.pds.scanning.state import FreshPage, Scan, StepResult
from trawlnet.engine.outcome import Reason
from trawlnet.tables.scanned.rows import RepoReading

_LOOKED_AT = 100  # Repos of a page, of which some are chosen.
_ONE_IN = 20
_MOST = 5  # Lookups for one page: five in a row would be enough.
_ENOUGH = 5  # Accounts in a row that live elsewhere.
# A first page is mostly the only one. Where it is this long, reading it costs so many requests that
# five lookups do not count.
_LONG = 500
RARELY = 30 * 86_400.0  # Seconds until somebody who makes accounts up is asked again.


def is_doubtful(scan: Scan, fresh: FreshPage) -> bool:
    """After a page behind which there are more: whether some of its accounts are looked up."""
    if scan.progress.is_listed or fresh.is_checked:
        return False
    is_long = scan.progress.pages >= 2 or fresh.stored.pending >= _LONG
    return is_long or bool(scan.progress.strangers)


async def check_residents(scan: Scan) -> StepResult:
    """Look some accounts up. When many in a row are not at home, there is no reason to go on."""
    unread = await scan.parts.tables.pending(scan.key, _LOOKED_AT)
    some, is_idle = chosen(unread, scan.key.lease), False
    if (fresh := scan.fresh) is not None:
        fresh.is_checked = True
        if not some and 2 * len(fresh.idle) > fresh.stored.new:
            some, is_idle = chosen_idle(fresh.idle, scan.key.lease), True
    for did in some:
        residence = await residence_of(scan, did)
        if isinstance(residence, SliceEnd):
            return StepResult(end=residence)
        if is_idle and residence is Residence.ELSEWHERE:
            continue  # Who moves away is switched off here: all of a page may have done so.
        # A document that does not come counts as well: whoever invents accounts can name hosts
        # that are not there.
        strangers = 0 if residence is Residence.HERE else scan.progress.strangers + 1
        scan.progress = replace(scan.progress, strangers=strangers)
        if strangers >= _ENOUGH:
            scan.progress = replace(scan.progress, is_open=False)
            return StepResult(end=failed(Reason.LOOP, _described(scan), RARELY))
    return StepResult()


async def is_endless(scan: Scan, collection: str, dids: Sequence[str]) -> bool | SliceEnd:
    """After a further page of those who have a collection: whether there will always be another,
    because the pages repeat, or name accounts that do not live there."""
    one = min(dids, key=lambda did: _draw(did, scan.key.lease))
    if collection in await scan.parts.tables.leads(scan.key, one):
        return True
    residence = await residence_of(scan, one)
    if isinstance(residence, SliceEnd):
        return residence
    strangers = 0 if residence is Residence.HERE else scan.progress.strangers + 1
    is_over = strangers >= _ENOUGH
    # What such pages say is left aside; the listing is judged by itself.
    scan.progress = replace(scan.progress, strangers=0 if is_over else strangers)
    return is_over


def chosen(readings: Sequence[RepoReading], salt: str) -> list[str]:
    """Some of those that were never read, in an order that the server cannot foresee."""
    never = [reading.did for reading in readings if reading.number == 1]
    count = min(_MOST, -(-len(never) // _ONE_IN))
    return sorted(never, key=lambda did: _draw(did, salt))[:count]


def chosen_idle(dids: Sequence[str], salt: str) -> list[str]:
    """Of accounts that are switched off one in twenty, also where each has a page to itself: a few
    next to each other that nobody knows any more mean nothing."""
    return [did for did in dids if _draw(did, salt) % _ONE_IN == 0][:_MOST]


def _draw(did: str, salt: str) -> int:
    return int.from_bytes(blake2b(f"{salt} {did}".encode()).digest())


def _described(scan: Scan) -> str:
    return (
        f"its listing continues after {scan.progress.pages} pages, but none of the last "
        f"{scan.progress.strangers} accounts that were looked up names this PDS in its DID document"
    )
