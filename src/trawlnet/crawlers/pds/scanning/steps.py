"""A scan step by step: what is done next follows from what is saved, and each step makes one
request."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from enum import StrEnum

from trawlnet.crawlers.pds.scanning.account import account_ended, begin_account
from trawlnet.crawlers.pds.scanning.ending import SliceEnd
from trawlnet.crawlers.pds.scanning.reading import begun, describe_repo, read_page
from trawlnet.crawlers.pds.scanning.residents import check_residents, is_doubtful
from trawlnet.crawlers.pds.scanning.state import OpenReading, Scan, StepResult
from trawlnet.crawlers.pds.scanning.walk import (
    circle,
    conclusion,
    follow_leads,
    list_page,
    walk_after,
    with_leads,
)
from trawlnet.crawlers.pds.scanning.writing import save, write

_BATCH = 100  # Repos between two saves.


class StepKind(StrEnum):
    LIST = "list"  # A page of the listing.
    RESIDENTS = "residents"  # Whether accounts of that page live there.
    LEADS = "leads"  # A page of who has a collection.
    ACCOUNT = "account"  # Where one account lives, and its rev.
    DESCRIBE = "describe"  # The collections of a repo.
    RECORDS = "records"  # A page of its records.


async def first_step(scan: Scan) -> StepKind | SliceEnd:
    """Where the last scan stopped, or the beginning of a new walk."""
    if scan.account:
        return StepKind.ACCOUNT
    before = await scan.parts.tables.progress(scan.key)
    scan.progress = walk_after(before, scan.parts.limits.full_every)
    # What an earlier walk has left is in the listing of a new one, too.
    scan.has_pending = scan.progress is before
    return await next_step(scan)


async def next_step(scan: Scan) -> StepKind | SliceEnd:
    """May write: what is between two steps, and the end of a walk."""
    if scan.account:
        return _of_repo(scan.open) if scan.open else account_ended(scan)
    if (fresh := scan.fresh) is not None:
        if not scan.progress.is_listed and (end := circle(scan, fresh)) is not None:
            return end
        if is_doubtful(scan, fresh):
            return StepKind.RESIDENTS
        await _read_on(scan, fresh.stored.pending)
    if scan.progress.leads_todo:
        return StepKind.LEADS
    if (repo := await _next_repo(scan)) is not None:
        return _of_repo(repo)
    return await _end(scan) if scan.progress.is_listed else StepKind.LIST


async def do_step(scan: Scan, kind: StepKind) -> StepResult:
    match kind:
        case StepKind.LIST:
            return await list_page(scan)
        case StepKind.RESIDENTS:
            return await check_residents(scan)
        case StepKind.LEADS:
            return await follow_leads(scan)
        case StepKind.ACCOUNT:
            return await begin_account(scan)
    assert scan.open is not None
    if kind is StepKind.DESCRIBE:
        return await describe_repo(scan, scan.open)
    return await read_page(scan, scan.open)


def _of_repo(repo: OpenReading) -> StepKind:
    return StepKind.DESCRIBE if repo.reading.todo is None else StepKind.RECORDS


async def _read_on(scan: Scan, pending: int) -> None:
    """A page was stored and looked at: what it has is read before the next, so that the queue stays
    short."""
    if (progress := with_leads(scan, pending)) is not None:
        await scan.parts.tables.begin_leads(scan.key, progress, scan.now)
        scan.progress = progress
    scan.fresh = None
    scan.has_pending = scan.progress.is_open and pending > 0


async def _next_repo(scan: Scan) -> OpenReading | None:
    """The repo under way, or the next about which something has to be asked."""
    while scan.open is None and (scan.queue or scan.has_pending):
        if not scan.queue:
            if scan.done:
                await save(scan)  # Or they would be named again.
            batch = await scan.parts.tables.pending(scan.key, _BATCH)
            scan.queue, scan.has_pending = deque(batch), len(batch) == _BATCH
            continue
        reading = await begun(scan, scan.queue.popleft())
        if reading.todo == ():
            await write(scan, scan.nothing_there(reading))
        else:
            scan.open = OpenReading(reading)
    return scan.open


async def _end(scan: Scan) -> StepKind | SliceEnd:
    if scan.progress.is_open:
        ended = replace(scan.progress, is_open=False)
        done = scan.take_done()
        scan.progress = await scan.parts.tables.end_walk(scan.key, ended, done, scan.now)
        if scan.progress.is_open:
            return StepKind.LIST
    scan.is_over = True
    return await conclusion(scan)
