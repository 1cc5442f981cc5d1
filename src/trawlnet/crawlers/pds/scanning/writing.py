"""The sink of scans: what a step has left is written under the claim on its PDS."""

from __future__ import annotations

from collections.abc import Sequence

from trawlnet.crawlers.pds.scanning.items import (
    LeadsListed,
    PageListed,
    ReadingEnded,
    ReadingsDone,
    RecordsRead,
    ScanItem,
    WalkSaved,
)
from trawlnet.crawlers.pds.scanning.state import FreshPage, Scan


async def write(scan: Scan, items: Sequence[ScanItem]) -> None:
    """Each in one transaction. Raises LeaseLost."""
    tables, key, now = scan.parts.tables, scan.key, scan.now
    for item in items:
        match item:
            case PageListed(repos, progress, done):
                before = scan.progress
                stored = await tables.list_page(key, repos, progress, done, now)
                idle = [repo.did for repo in repos if not repo.is_readable]
                scan.progress, scan.fresh = stored.progress, FreshPage(before, stored, idle)
            case LeadsListed(collection, dids, progress):
                await tables.add_leads(key, collection, dids, progress, now)
                scan.progress = progress
            case RecordsRead(records, reading):
                await tables.put_records(key, records, reading, now)
            case ReadingEnded(records, reading):
                await tables.end_reading(key, records, reading, now)
            case WalkSaved(progress, done):
                await tables.save(key, progress, done, now)
                scan.progress = progress
            case ReadingsDone(done):
                await tables.settle(key, done)
    _meter_indexing(scan)


async def save(scan: Scan) -> None:
    """All that was read and is not written yet."""
    done = scan.take_done()
    rest = ReadingsDone(done) if scan.account else WalkSaved(scan.progress, done)
    await write(scan, [*scan.unwritten(), rest])


def _meter_indexing(scan: Scan) -> None:
    if scan.indexing is not None and scan.parts.meter is not None:
        collection, begun = scan.indexing
        scan.parts.meter.index_took(scan.parts.routes.label(collection), scan.now - begun)
    scan.indexing = None
