"""The walk over a PDS: list its repos page by page, read those that changed, notice the gone."""

from __future__ import annotations

from dataclasses import replace

from trawlnet.crawlers.pds.scanning.asking import is_missing
from trawlnet.crawlers.pds.scanning.ending import Halt, SliceEnd, failed
from trawlnet.crawlers.pds.scanning.items import LeadsListed, PageListed, WalkSaved
from trawlnet.crawlers.pds.scanning.pages import (
    REPOS_AT_ONCE,
    ReposPage,
    list_repos_url,
    read_repos,
    repos_by_collection_url,
)
from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.crawlers.pds.scanning.residents import is_endless
from trawlnet.crawlers.pds.scanning.state import FreshPage, Scan, StepResult, halted
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.tables.scanned.rows import WalkProgress

_ROUND = (10, 16, 25)  # Page sizes of servers are multiples of one of these.
# Few PDSes list repos by collection: whether one does is worth a question only where a yes would
# save this many requests.
_DOUBT = 30
_TOMORROW = 86_400.0
_NOT_THIS_TIME = -1.0  # Instead of an instant: this walk goes without leads.


def walk_after(before: WalkProgress, full_every: int) -> WalkProgress:
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


async def list_page(scan: Scan) -> StepResult:
    """The next page of the listing."""
    before = scan.progress
    page = await _ask_for_page(scan, list_repos_url(scan.pds, before.cursor))
    if isinstance(page, Halt):
        return halted(page)
    if isinstance(page, Outcome):
        if page.reason.blame is not Blame.LANE:
            # It may be the cursor that displeases: the next walk starts from the beginning.
            scan.progress = replace(before, is_open=False)
        return StepResult(end=failed(page.reason, page.detail), outcome=page)
    return StepResult([PageListed(page.repos, after_page(before, page), scan.take_done())])


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
    if page_size:
        return rows < page_size
    return rows < REPOS_AT_ONCE and all(rows % round_ for round_ in _ROUND)


def circle(scan: Scan, fresh: FreshPage) -> SliceEnd | None:
    """The end of a walk whose listing will have none."""
    why = ""
    if scan.progress.cursor == fresh.before.cursor:
        why = "the cursor of the listing repeats"
    elif not fresh.stored.new:
        why = "a page of the listing without a new account"
    elif scan.progress.pages >= scan.parts.limits.listing_pages:
        why = f"more than {scan.parts.limits.listing_pages} pages of repos"
    if not why:
        return None
    scan.progress = replace(scan.progress, is_open=False)
    return failed(Reason.LOOP, why)


def with_leads(scan: Scan, pending: int) -> WalkProgress | None:
    """The walk that first asks which repos have a collection at all, where that is cheaper than to
    ask every repo."""
    progress = scan.progress
    doubt = 0 if progress.by_collection == "yes" else _DOUBT
    if progress.leads_at or progress.by_collection == "no" or not scan.names:
        return None
    if pending <= len(scan.names) + doubt:
        return None
    return replace(progress, leads_at=scan.now, leads_todo=scan.names, leads_cursor="")


async def follow_leads(scan: Scan) -> StepResult:
    """A page of those who have the next collection."""
    progress = scan.progress
    collection, *rest = progress.leads_todo
    url = repos_by_collection_url(scan.pds, collection, progress.leads_cursor)
    page = await _ask_for_page(scan, url)
    if isinstance(page, Halt):
        return halted(page)
    scan.leads_pages += 1
    endless: bool | SliceEnd = False
    if isinstance(page, ReposPage) and page.repos and progress.leads_cursor:
        endless = await is_endless(scan, collection, [repo.did for repo in page.repos])
        progress = scan.progress
    if isinstance(endless, SliceEnd):
        return StepResult(end=endless)
    if isinstance(page, Outcome) or endless or _is_circular(scan, page):
        missing = endless or (isinstance(page, Outcome) and is_missing(page))
        without = _without_leads(progress, "no" if missing else progress.by_collection)
        outcome = page if isinstance(page, Outcome) else Outcome(Reason.LOOP)
        return StepResult([WalkSaved(without, scan.take_done())], outcome=outcome)
    if not page.cursor or not page.rows:
        after = replace(progress, leads_todo=tuple(rest), leads_cursor="")
    else:
        after = replace(progress, leads_cursor=page.cursor)
    after = replace(after, by_collection="yes")
    return StepResult([LeadsListed(collection, [repo.did for repo in page.repos], after)])


def _is_circular(scan: Scan, page: ReposPage) -> bool:
    repeats = bool(page.cursor) and page.cursor == scan.progress.leads_cursor
    return repeats or scan.leads_pages > scan.parts.limits.listing_pages


def _without_leads(progress: WalkProgress, by_collection: str) -> WalkProgress:
    return replace(
        progress,
        by_collection=by_collection,
        leads_at=_NOT_THIS_TIME,
        leads_todo=(),
        leads_cursor="",
    )


async def _ask_for_page(scan: Scan, url: str) -> ReposPage | Outcome | Halt:
    body = await scan.client.ask(url)
    if not isinstance(body, bytes):
        return body
    try:
        page = read_repos(body)
    except Malformed as error:
        return Outcome(Reason.PARSE_ERROR, detail=str(error))
    if page.rows and not page.repos:
        return Outcome(Reason.PARSE_ERROR, detail="a page of repos without a DID")
    return page


async def conclusion(scan: Scan) -> SliceEnd:
    """What a walk to the end means. That there is nothing may be said only if nothing failed."""
    held = scan.held = await scan.parts.tables.held(scan.pds)
    has_wanted = any(map(scan.parts.routes.wants, held.records))
    troubles = dict(await scan.parts.tables.troubles(scan.key, scan.progress.walk))
    sound = troubles.pop("", 0)
    if not troubles:
        if scan.strangers and not has_wanted:
            if scan.lacks_describe:
                return failed(Reason.REFUSED, "it lists only accounts of other PDSes")
            detail = f"{scan.strangers} accounts with records live elsewhere"
            return SliceEnd(ScanVerdict.COMPLETE, Reason.REFUSED, detail, error=detail)
        return SliceEnd(ScanVerdict.COMPLETE, Reason.OK)
    worst = Reason(max(troubles, key=lambda trouble: troubles[trouble]))
    count = sum(troubles.values())
    detail = f"{count} of {count + sound} repos could not be read: {worst}"
    if has_wanted:
        return SliceEnd(ScanVerdict.COMPLETE, Reason.OK, detail, error=detail)
    if count <= sound:
        return SliceEnd(ScanVerdict.PARTIAL, Reason.OK, detail, _TOMORROW, error=detail)
    return failed(worst, detail)
