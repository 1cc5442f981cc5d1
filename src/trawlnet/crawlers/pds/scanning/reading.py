"""Reading one repo: which of our collections it has, whether it lives here, and its records."""

from __future__ import annotations

from dataclasses import replace

from trawlnet.atproto.syntax import is_tid
from trawlnet.atproto.tid import tid_time_us
from trawlnet.crawlers.atproto.answers import speaks_for_account
from trawlnet.crawlers.pds.scanning.asking import is_missing, is_surely_missing
from trawlnet.crawlers.pds.scanning.ending import SOON, Halt, SliceEnd, failed
from trawlnet.crawlers.pds.scanning.pages import (
    RecordsPage,
    describe_repo_url,
    list_records_url,
    read_description,
    read_records,
)
from trawlnet.crawlers.pds.scanning.parts import RECORDS_AT_ONCE, ScanVerdict
from trawlnet.crawlers.pds.scanning.residence import Residence, residence_of
from trawlnet.crawlers.pds.scanning.state import OpenReading, Scan, StepResult, halted
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.tables.scanned.rows import RepoReading

_DESCRIPTION_BYTES = 1 << 20
_SMALLER_PAGES = (10, 1)  # For records so large that a full page of them is refused.
_SKEW = 300.0  # Seconds that a server's clock may be ahead of ours.


async def begun(scan: Scan, reading: RepoReading) -> RepoReading:
    """The reading with what is to be read, where that is known without asking. Who can only ask by
    name looks at nothing else."""
    if reading.todo is not None:
        return reading
    if _leads_cover(scan, reading):
        leads = await scan.parts.tables.leads(scan.key, reading.did)
        wanted = tuple(filter(scan.parts.routes.wants, leads))
        return replace(reading, todo=wanted, by_names=True)
    if scan.lacks_describe:
        return replace(reading, todo=scan.names, by_names=True)
    return reading


async def describe_repo(scan: Scan, repo: OpenReading) -> StepResult:
    """Which of the wanted collections the repo has."""
    reading = repo.reading
    body = await scan.client.ask(describe_repo_url(scan.pds, reading.did), _DESCRIPTION_BYTES)
    if isinstance(body, Halt):
        return halted(body)
    if isinstance(body, Outcome):
        return _not_described(scan, repo, body)
    try:
        described = read_description(body, reading.did)
    except Malformed as error:
        return scan.broken(reading, Outcome(Reason.PARSE_ERROR, detail=str(error)))
    scan.described += 1
    repo.reading = replace(reading, todo=tuple(filter(scan.parts.routes.wants, described)))
    return StepResult() if repo.reading.todo else StepResult(scan.nothing_there(repo.reading))


def _not_described(scan: Scan, repo: OpenReading, outcome: Outcome) -> StepResult:
    reading = repo.reading
    if _lacks_describe(scan, outcome):
        scan.lacks_describe = True
        repo.reading = replace(reading, todo=scan.names, by_names=True)
        return StepResult(outcome=outcome)
    if speaks_for_account(outcome):
        # Listed, and yet not to be read. It may come back as it was, so no rev is remembered.
        return StepResult(scan.nothing_there(replace(reading, rev="")), outcome=outcome)
    return scan.broken(reading, outcome)


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


async def read_page(scan: Scan, repo: OpenReading) -> StepResult:
    """The next page of records of a repo that lives here."""
    if not repo.is_resident and (stepped := await _settled_elsewhere(scan, repo)) is not None:
        return stepped
    reading = repo.reading
    page = await _page(scan, reading)
    if isinstance(page, Halt):
        return halted(page)
    if isinstance(page, Outcome):
        return _no_records(scan, reading, page)
    if page.rows > _room(scan, reading):
        most = scan.parts.limits.account_records
        detail = f"more than {most} records in a collection of {reading.did}"
        return scan.broken(reading, Outcome(Reason.TOO_LARGE, detail=detail))
    if why := await _circle(scan, repo, page):
        return scan.broken(reading, Outcome(Reason.LOOP, detail=why))
    return _take_in(scan, repo, page)


def _room(scan: Scan, reading: RepoReading) -> int:
    """How many more rows of a collection are read. A page without any is its last, so that this
    bounds the pages, too."""
    return scan.parts.limits.account_records - reading.rows


async def _settled_elsewhere(scan: Scan, repo: OpenReading) -> StepResult | None:
    """What it means that the account does not live here; None if it does."""
    reading = repo.reading
    match await residence_of(scan, reading.did):
        case SliceEnd() as end:
            return StepResult(end=end)
        case Outcome() as outcome:
            scan.open = None
            scan.done.append(replace(reading, trouble=str(outcome.reason)))
            return StepResult(outcome=outcome)
        case Residence.ELSEWHERE | Residence.NOWHERE:
            return await _elsewhere(scan, reading)
        case Residence.HERE:
            scan.own += 1
            repo.is_resident = True
            repo.reading = replace(reading, is_held=True)
    return None


async def _elsewhere(scan: Scan, reading: RepoReading) -> StepResult:
    scan.strangers += 1
    # It may come to live here as it is, so no rev is remembered.
    items = scan.nothing_there(replace(reading, rev="", by_names=False))
    if scan.strangers < scan.parts.limits.strangers or await _has_residents(scan):
        return StepResult(items)
    detail = f"it shows records of {scan.strangers} accounts, and none of them lives there"
    return StepResult(items, failed(Reason.REFUSED, detail))


async def _has_residents(scan: Scan) -> bool:
    """Residents that have not changed are not read again, but what they have is held."""
    if not scan.own:
        scan.own = sum((await scan.parts.tables.held(scan.pds)).records.values())
    return scan.own > 0


def _take_in(scan: Scan, repo: OpenReading, page: RecordsPage) -> StepResult:
    reading = repo.reading
    assert reading.todo
    collection = reading.todo[0]
    scan.indexing = (collection, scan.now)
    fresh = [record for record in page.records if record.uri.rkey not in repo.seen]
    repo.seen.update(record.uri.rkey for record in fresh)
    repo.good, repo.bad = repo.good + len(page.records), repo.bad + page.forged
    after = _after_page(reading, page)
    route = scan.parts.routes.route
    routed = [route(record.uri, record.cid, record.value) for record in fresh]
    items = scan.keep(scan.count(collection, routed, page.forged), after)
    if after.todo != reading.todo:
        repo.seen.clear()
    repo.reading = after
    if after.todo:
        return StepResult(items)
    if repo.bad and not repo.good:
        detail = f"{repo.bad} records that are malformed or belong to another account"
        broken = scan.broken(after, Outcome(Reason.PARSE_ERROR, detail=detail))
        return replace(broken, items=[*items, *broken.items])
    scan.open = None
    scan.read += 1
    scan.broken_in_row = 0
    return StepResult(items)


def _after_page(reading: RepoReading, page: RecordsPage) -> RepoReading:
    """Who shows one record that cannot be read has shown the others; only that none is gone can no
    longer be said, and that all of it was read."""
    if page.forged:
        reading = replace(reading, is_flawed=True)
    assert reading.todo
    if page.cursor and page.rows:
        return replace(reading, cursor=page.cursor, rows=reading.rows + page.rows)
    return replace(reading, todo=reading.todo[1:], cursor="", rows=0)


async def _circle(scan: Scan, repo: OpenReading, page: RecordsPage) -> str:
    """Why the pages of a collection will not end; empty if they may."""
    reading, seen = repo.reading, repo.seen
    if page.cursor and page.cursor == reading.cursor:
        return "the cursor of the records repeats"
    if not page.records or not reading.cursor:
        return ""
    if seen:
        is_known = all(record.uri.rkey in seen for record in page.records)
    else:
        # The first page after an interruption: only the tables remember.
        first = str(page.records[0].uri)
        is_known = await scan.parts.tables.was_seen(scan.key, first, reading)
    return "a page of records without a new record" if is_known else ""


async def _page(scan: Scan, reading: RepoReading) -> RecordsPage | Outcome | Halt:
    assert reading.todo
    left = scan.parts.limits.records - scan.tally.found.total()
    if left <= 0:
        detail = f"{scan.parts.limits.records} records read; the next scan continues"
        return SliceEnd(ScanVerdict.PARTIAL, Reason.OK, detail, SOON)
    collection = reading.todo[0]
    left = min(left, max(_room(scan, reading), 1))
    body: bytes | Outcome | Halt = b""
    for limit in (RECORDS_AT_ONCE, *_SMALLER_PAGES):
        most = min(limit, left)
        url = list_records_url(scan.pds, reading.did, collection, most, reading.cursor)
        body = await scan.client.ask(url)
        if not isinstance(body, Outcome) or body.reason is not Reason.TOO_LARGE:
            break
    if not isinstance(body, bytes):
        return body
    try:
        return read_records(body, reading.did, collection)
    except Malformed as error:
        return Outcome(Reason.PARSE_ERROR, detail=str(error))


def _no_records(scan: Scan, reading: RepoReading, outcome: Outcome) -> StepResult:
    if speaks_for_account(outcome):
        gone = replace(reading, rev="", by_names=False)
        return StepResult(scan.nothing_there(gone), outcome=outcome)
    if scan.lacks_describe and is_missing(outcome):
        detail = "it lists repositories and returns none of them: not a PDS"
        return StepResult(end=failed(Reason.REFUSED, detail), outcome=outcome)
    return scan.broken(reading, outcome)
