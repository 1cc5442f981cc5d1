"""Reading one repo: which of our collections it has, whether it lives here, and its records."""

from __future__ import annotations

from dataclasses import replace

from trawlnet.atproto.syntax import is_tid
from trawlnet.atproto.tid import tid_time_us
from trawlnet.crawlers.atproto.answers import speaks_for_account
from trawlnet.crawlers.pds.scanning.asking import SOON, Stopped, is_missing, is_surely_missing
from trawlnet.crawlers.pds.scanning.pages import (
    RecordsPage,
    describe_repo_url,
    list_records_url,
    read_description,
    read_records,
)
from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.crawlers.pds.scanning.residence import Residence, residence_of
from trawlnet.crawlers.pds.scanning.state import Scan
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.tables.scanned.rows import RepoReading

_DESCRIPTION_BYTES = 1 << 20
_RECORDS_AT_ONCE = 100
_SMALLER_PAGES = (10, 1)  # For records so large that a full page of them is refused.
_SKEW = 300.0  # Seconds that a server's clock may be ahead of ours.


async def read_repo(scan: Scan, reading: RepoReading) -> None:
    """Everything of one repo, page by page. Raises Stopped."""
    if reading.todo is None:
        begun = await _begun(scan, reading)
        if isinstance(begun, Outcome):
            return await _no_collections(scan, reading, begun)
        reading = begun
    if not reading.todo:
        return await scan.nothing_there(reading)
    match await residence_of(scan, reading.did):
        case Residence.HERE:
            scan.own += 1
            await _read_collections(scan, replace(reading, is_held=True))
        case Residence.ELSEWHERE:
            await _elsewhere(scan, reading)
        case Outcome() as outcome:
            scan.done.append(replace(reading, trouble=str(outcome.reason)))
    return None


async def _begun(scan: Scan, reading: RepoReading) -> RepoReading | Outcome:
    """The reading with what is to be read. Who can only ask by name looks at nothing else."""
    if _leads_cover(scan, reading):
        leads = await scan.parts.tables.leads(scan.key, reading.did)
        wanted = tuple(filter(scan.parts.routes.wants, leads))
        return replace(reading, todo=wanted, by_names=True)
    described = None if scan.lacks_describe else await _described(scan, reading)
    if scan.lacks_describe:
        return replace(reading, todo=scan.names, by_names=True)
    return described if isinstance(described, Outcome) else replace(reading, todo=described)


async def _described(scan: Scan, reading: RepoReading) -> tuple[str, ...] | Outcome:
    url = describe_repo_url(scan.pds, reading.did)
    body = await scan.asker.ask(url, _DESCRIPTION_BYTES)
    if isinstance(body, Outcome):
        scan.lacks_describe = _lacks_describe(scan, body)
        return body
    try:
        described = read_description(body, reading.did)
    except Malformed as error:
        return Outcome(Reason.PARSE_ERROR, detail=str(error))
    scan.described += 1
    return tuple(filter(scan.parts.routes.wants, described))


def _lacks_describe(scan: Scan, outcome: Outcome) -> bool:
    """Whether the server does not know the method, in which case each collection is asked for by
    its name. A bare 404 may also mean one repo."""
    if scan.described or not scan.names or speaks_for_account(outcome):
        return False
    scan.not_described += is_missing(outcome)
    return is_surely_missing(outcome) or scan.not_described > 1


def _leads_cover(scan: Scan, reading: RepoReading) -> bool:
    """Only what was written before the leads were asked for is in them."""
    progress = scan.progress
    if progress.leads_at <= 0.0 or progress.leads_todo or not is_tid(reading.rev):
        return False
    return tid_time_us(reading.rev) / 1e6 < progress.leads_at - _SKEW


async def _no_collections(scan: Scan, reading: RepoReading, outcome: Outcome) -> None:
    if speaks_for_account(outcome):
        # Listed, and yet not to be read. It may come back as it was, so no rev is remembered.
        await scan.nothing_there(replace(reading, rev=""))
    else:
        await scan.broken(reading, outcome)


async def _elsewhere(scan: Scan, reading: RepoReading) -> None:
    scan.strangers += 1
    await scan.nothing_there(replace(reading, by_names=False))
    if scan.strangers >= scan.parts.limits.strangers and not scan.own:
        detail = f"it shows records of {scan.strangers} accounts, and none of them lives there"
        raise Stopped(ScanVerdict.FAILED, Reason.REFUSED, detail)


async def _read_collections(scan: Scan, reading: RepoReading) -> None:
    seen: set[str] = set()  # Record keys of the current collection; a scan's cap bounds it.
    good = bad = 0
    while reading.todo:
        page = await _page(scan, reading)
        if isinstance(page, Outcome):
            return await _no_records(scan, reading, page)
        if why := await _circle(scan, reading, page, seen):
            return await scan.broken(reading, Outcome(Reason.LOOP, detail=why))
        fresh = [record for record in page.records if record.uri.rkey not in seen]
        seen.update(record.uri.rkey for record in fresh)
        good, bad, begun = good + len(page.records), bad + page.forged, scan.now
        after = _after_page(reading, page)
        route = scan.parts.routes.route
        routed = [route(record.uri, record.cid, record.value) for record in fresh]
        records = scan.count(reading.todo[0], routed, page.forged)
        await scan.keep(records, after)
        scan.index_took(reading.todo[0], scan.now - begun)
        if after.todo != reading.todo:
            seen.clear()
        reading = after
    if bad and not good:
        detail = f"{bad} records that are not what they claim to be"
        return await scan.broken(reading, Outcome(Reason.PARSE_ERROR, detail=detail))
    scan.read += 1
    scan.broken_in_row = 0
    return None


def _after_page(reading: RepoReading, page: RecordsPage) -> RepoReading:
    """Who shows one record that cannot be read has shown the others; only that none is gone can no
    longer be said, and that all of it was read."""
    if page.forged:
        reading = replace(reading, is_flawed=True)
    assert reading.todo
    if page.cursor and page.rows:
        return replace(reading, cursor=page.cursor, pages=reading.pages + 1)
    return replace(reading, todo=reading.todo[1:], cursor="", pages=0)


async def _circle(scan: Scan, reading: RepoReading, page: RecordsPage, seen: set[str]) -> str:
    """Why the pages of a collection will not end; empty if they may."""
    if page.cursor and page.cursor == reading.cursor:
        return "the cursor of the records repeats"
    if reading.pages >= scan.parts.limits.record_pages:
        return f"more than {scan.parts.limits.record_pages} pages of records"
    if not page.records or not reading.cursor:
        return ""
    if seen:
        is_known = all(record.uri.rkey in seen for record in page.records)
    else:
        # The first page after an interruption: only the tables remember.
        first = str(page.records[0].uri)
        is_known = await scan.parts.tables.was_seen(scan.key, first, reading)
    return "a page of records with nothing new" if is_known else ""


async def _page(scan: Scan, reading: RepoReading) -> RecordsPage | Outcome:
    assert reading.todo
    left = scan.parts.limits.records - scan.tally.found.total()
    if left <= 0:
        detail = f"{scan.parts.limits.records} records read, the rest comes later"
        raise Stopped(ScanVerdict.PARTIAL, Reason.OK, detail, SOON)
    collection = reading.todo[0]
    body: bytes | Outcome = b""
    for limit in (_RECORDS_AT_ONCE, *_SMALLER_PAGES):
        most = min(limit, left)
        url = list_records_url(scan.pds, reading.did, collection, most, reading.cursor)
        body = await scan.asker.ask(url)
        if not isinstance(body, Outcome) or body.reason is not Reason.TOO_LARGE:
            break
    if isinstance(body, Outcome):
        return body
    try:
        return read_records(body, reading.did, collection)
    except Malformed as error:
        return Outcome(Reason.PARSE_ERROR, detail=str(error))


async def _no_records(scan: Scan, reading: RepoReading, outcome: Outcome) -> None:
    if speaks_for_account(outcome):
        await scan.nothing_there(replace(reading, rev="", by_names=False))
    elif scan.lacks_describe and is_missing(outcome):
        detail = "it lists repos and shows none: not a PDS"
        raise Stopped(ScanVerdict.FAILED, Reason.REFUSED, detail)
    else:
        await scan.broken(reading, outcome)
