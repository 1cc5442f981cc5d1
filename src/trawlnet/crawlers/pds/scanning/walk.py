"""The walk over a PDS: list its repos page by page, read those that changed, notice the gone."""

from __future__ import annotations

from dataclasses import replace

from trawlnet.crawlers.pds.scanning.asking import Stopped, is_missing
from trawlnet.crawlers.pds.scanning.pages import (
    REPOS_AT_ONCE,
    ReposPage,
    list_repos_url,
    read_repos,
    repos_by_collection_url,
)
from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.crawlers.pds.scanning.reading import read_repo
from trawlnet.crawlers.pds.scanning.residents import check_residents
from trawlnet.crawlers.pds.scanning.state import Scan
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.tables.scanned.rows import WalkProgress

_BATCH = 100  # Repos between two saves.
_ROUND = 50  # Page sizes of servers are multiples of this.
# Few PDSes list repos by collection: whether one does is worth a question only where a yes would
# save this many requests.
_DOUBT = 30
_NOT_THIS_TIME = -1.0  # Instead of an instant: this walk goes without leads.


async def walk(scan: Scan) -> None:
    """To the end, or until something stops it: then Stopped is raised, and the rest is left to
    the next scan."""
    before = await scan.parts.tables.progress(scan.key)
    scan.progress = begun(before, scan.parts.limits.full_every)
    if scan.progress.leads_todo:
        await _follow_leads(scan)
    # What an earlier walk has left is in the listing of a new one, too.
    if scan.progress is before:
        await _read_pending(scan)
    while not scan.progress.is_listed:
        await _list_page(scan)
        await _read_pending(scan)
    if scan.progress.is_open:
        scan.progress = replace(scan.progress, is_open=False)
        await scan.parts.tables.end_walk(scan.key, scan.progress, scan.take_done(), scan.now)


async def _read_pending(scan: Scan) -> None:
    """Before the next page is listed, so that the queue stays short."""
    size = _BATCH if scan.progress.is_open else 0
    while size == _BATCH:
        batch = await scan.parts.tables.pending(scan.key, _BATCH)
        for reading in batch:
            await read_repo(scan, reading)
        size = len(batch)
        if size == _BATCH:
            await scan.save()


def begun(before: WalkProgress, full_every: int) -> WalkProgress:
    """The walk that is under way, or a new one."""
    if before.is_open:
        return before
    number = before.walk + 1
    is_full = number % full_every == 0
    return WalkProgress(
        walk=number,
        is_open=True,
        is_full=is_full,
        end_cursor="" if is_full else before.end_cursor,
        page_size=before.page_size,
        by_collection="" if is_full else before.by_collection,
        strangers=before.strangers,
        leads_at=_NOT_THIS_TIME if is_full else 0.0,
    )


async def _list_page(scan: Scan) -> None:
    before = scan.progress
    page = await _ask_for_page(scan, list_repos_url(scan.pds, before.cursor))
    if isinstance(page, Outcome):
        if page.reason.blame is not Blame.LANE:
            # It may be the cursor that displeases: the next walk starts from the beginning.
            scan.progress = replace(before, is_open=False)
        raise Stopped(ScanVerdict.FAILED, page.reason, page.detail)
    after = after_page(before, page)
    done = scan.take_done()
    listed = await scan.parts.tables.list_page(scan.key, page.repos, after, done, scan.now)
    scan.progress = listed.progress
    if not scan.progress.is_listed:
        _refuse_circles(scan, before, page, listed.new)
        await check_residents(scan, pending=listed.pending)
    await _look_for_leads(scan, listed.pending)


def after_page(before: WalkProgress, page: ReposPage) -> WalkProgress:
    """Where the walk goes on. Many servers give a cursor with their last page, too: one that
    led nowhere the last time is not followed, if the page has room for whoever is new."""
    page_size = max(before.page_size, before.last_rows if page.rows else 0)
    has_room = _has_room(page.rows, page_size)
    is_known_end = bool(page.cursor) and page.cursor == before.end_cursor and has_room
    is_listed = not page.cursor or not page.rows or is_known_end
    end_cursor = before.end_cursor
    if is_listed and not is_known_end:
        end_cursor = "" if page.rows else before.cursor
    return replace(
        before,
        is_listed=is_listed,
        cursor=page.cursor,
        end_cursor=end_cursor,
        pages=before.pages + 1,
        page_size=page_size,
        last_rows=page.rows,
    )


def _has_room(rows: int, page_size: int) -> bool:
    """Whether somebody new would be on this page. A server may give fewer than we ask for at the
    most, and as long as it has but one page, nobody knows how many: round numbers are suspicious.
    """
    return rows < page_size if page_size else rows < REPOS_AT_ONCE and rows % _ROUND != 0


def _refuse_circles(scan: Scan, before: WalkProgress, page: ReposPage, new: int) -> None:
    why = ""
    if page.cursor == before.cursor:
        why = "the cursor of the listing repeats"
    elif not new:
        why = "a page of the listing with nobody new"
    elif scan.progress.pages >= scan.parts.limits.listing_pages:
        why = f"more than {scan.parts.limits.listing_pages} pages of repos"
    if why:
        scan.progress = replace(scan.progress, is_open=False)
        raise Stopped(ScanVerdict.FAILED, Reason.LOOP, why)


async def _look_for_leads(scan: Scan, pending: int) -> None:
    """Ask which repos have a collection at all, where that is cheaper than to ask every repo."""
    progress = scan.progress
    doubt = 0 if progress.by_collection == "yes" else _DOUBT
    if progress.leads_at or progress.by_collection == "no" or not scan.names:
        return
    if pending <= len(scan.names) + doubt:
        return
    scan.progress = replace(progress, leads_at=scan.now, leads_todo=scan.names, leads_cursor="")
    await scan.parts.tables.begin_leads(scan.key, scan.progress, scan.now)
    await _follow_leads(scan)


async def _follow_leads(scan: Scan) -> None:
    pages = 0
    while scan.progress.leads_todo:
        progress, pages = scan.progress, pages + 1
        collection, *rest = progress.leads_todo
        url = repos_by_collection_url(scan.pds, collection, progress.leads_cursor)
        page = await _ask_for_page(scan, url)
        if isinstance(page, Outcome) or _is_circular(scan, page, pages):
            missing = isinstance(page, Outcome) and is_missing(page)
            scan.progress = _without_leads(progress, "no" if missing else progress.by_collection)
            return await scan.save()
        if not page.cursor or not page.rows:
            after = replace(progress, leads_todo=tuple(rest), leads_cursor="")
        else:
            after = replace(progress, leads_cursor=page.cursor)
        scan.progress = replace(after, by_collection="yes")
        dids = [repo.did for repo in page.repos]
        await scan.parts.tables.add_leads(scan.key, collection, dids, scan.progress, scan.now)
    return None


def _is_circular(scan: Scan, page: ReposPage, pages: int) -> bool:
    repeats = bool(page.cursor) and page.cursor == scan.progress.leads_cursor
    return repeats or pages > scan.parts.limits.listing_pages


def _without_leads(progress: WalkProgress, by_collection: str) -> WalkProgress:
    return replace(
        progress,
        by_collection=by_collection,
        leads_at=_NOT_THIS_TIME,
        leads_todo=(),
        leads_cursor="",
    )


async def _ask_for_page(scan: Scan, url: str) -> ReposPage | Outcome:
    body = await scan.asker.ask(url)
    if isinstance(body, Outcome):
        return body
    try:
        page = read_repos(body)
    except Malformed as error:
        return Outcome(Reason.PARSE_ERROR, detail=str(error))
    if page.rows and not page.repos:
        return Outcome(Reason.PARSE_ERROR, detail="a page of repos without a DID")
    return page
