"""Whether accounts live where a long listing names them: one without an end has to invent them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from trawlnet.crawlers.pds.scanning.ending import SliceEnd, failed
from trawlnet.crawlers.pds.scanning.residence import Residence, residence_of
from trawlnet.crawlers.pds.scanning.state import FreshPage, Scan, Stepped
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


async def check_residents(scan: Scan) -> Stepped:
    """Look some accounts up. When many in a row live elsewhere, there is no reason to go on."""
    if scan.fresh is not None:
        scan.fresh.is_checked = True
    unread = await scan.parts.tables.pending(scan.key, _LOOKED_AT)
    for reading in chosen(unread, scan.key.lease):
        residence = await residence_of(scan, reading.did)
        if isinstance(residence, SliceEnd):
            return Stepped(end=residence)
        if residence is Residence.HERE:
            scan.progress = replace(scan.progress, strangers=0)
        elif residence is Residence.ELSEWHERE:
            scan.progress = replace(scan.progress, strangers=scan.progress.strangers + 1)
        if scan.progress.strangers >= _ENOUGH:
            scan.progress = replace(scan.progress, is_open=False)
            return Stepped(end=failed(Reason.LOOP, _told(scan), RARELY))
    return Stepped()


def chosen(readings: Sequence[RepoReading], salt: str) -> list[RepoReading]:
    """Some of those that were never read, in an order that the server cannot foresee."""
    never = [reading for reading in readings if reading.number == 1]
    count = min(_MOST, -(-len(never) // _ONE_IN))
    return sorted(never, key=lambda one: blake2b(f"{salt} {one.did}".encode()).digest())[:count]


def _told(scan: Scan) -> str:
    return (
        f"its listing goes on after {scan.progress.pages} pages, and none of the last "
        f"{scan.progress.strangers} accounts that were looked up lives there"
    )
