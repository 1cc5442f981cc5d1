"""What a page of a listing tells: pure, and suspicious of pages that lead nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from trawlnet.atproto.syntax import is_did
from trawlnet.crawlers.atproto.pages import Rows, Trail, host_url, page_after, parse_page
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount
from trawlnet.crawlers.repos.work import Listing, ListingKind
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.task import Task


@dataclass(frozen=True, slots=True)
class HostRules:
    """Which of the hosts that a relay names are visited, and how."""

    allow_private: bool = False
    skip: frozenset[str] = frozenset()  # Lanes.


def listing_url(listing: Listing) -> str:
    method = "listHosts" if listing.what is ListingKind.HOSTS else "listRepos"
    after = f"&cursor={quote(listing.cursor, safe='')}" if listing.cursor else ""
    return f"{listing.server}/xrpc/com.atproto.sync.{method}?limit=1000{after}"


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Everything that a page names."""

    hosts: Sequence[Task]  # The first listing of each.
    claims: Sequence[ListedAccount]  # Accounts that are said to be there.
    after: Listing | None  # The page after it.
    loop: str  # Why there is none in spite of a cursor; what the page names is kept.
    left_out: int  # Rows that name nothing.

    def outcome(self, tasks: Sequence[Task]) -> Outcome:
        """With the tasks that came of its claims, and the page after it, in one receipt."""
        found = [*self.hosts, *tasks]
        if self.loop:
            return Outcome(Reason.LOOP, found=found, detail=self.loop)
        after = [self.after.task()] if self.after else []
        named = len(self.hosts) + len(self.claims)
        skipped = f", {self.left_out} left out" if self.left_out else ""
        return Outcome(Reason.OK, found=[*found, *after], detail=f"{named} named{skipped}")


def read_page(listing: Listing, body: bytes, rules: HostRules) -> ListedPage | None:
    """None for what is not a page of such a listing."""
    page = parse_page(body, str(listing.what))
    if page is None:
        return None
    hosts: list[Task] = []
    claims: list[ListedAccount] = []
    if listing.what is ListingKind.HOSTS:
        hosts = _host_tasks(page.rows, rules, listing.since)
    else:
        claims = _claims(page.rows, listing.server)
    after = _page_after(listing, page) if page.cursor else None
    return ListedPage(
        hosts,
        claims,
        after if isinstance(after, Listing) else None,
        after if isinstance(after, str) else "",
        len(page.rows) - len(hosts) - len(claims),
    )


def _page_after(listing: Listing, page: Rows) -> Listing | str:
    """The next page, or why there is none in spite of a cursor."""
    trail = Trail(listing.cursor, listing.number, listing.idle, listing.recent)
    after = page_after(trail, page)
    if isinstance(after, str):
        return after
    return replace(
        listing, cursor=after.cursor, number=after.number, idle=after.idle, recent=after.recent
    )


def _host_tasks(rows: Sequence[Any], rules: HostRules, since: int) -> list[Task]:
    tasks = []
    for row in rows:
        name = row.get("hostname") if isinstance(row, dict) else None
        # Offline and idle hosts may answer today; a banned one the relay's people know better.
        if not isinstance(name, str) or row.get("status") == "banned":
            continue
        task = _host_task(name, rules, since)
        if task is not None and task.lane not in rules.skip:
            tasks.append(task)
    return tasks


def _host_task(name: str, rules: HostRules, since: int) -> Task | None:
    url = host_url(name, allow_private=rules.allow_private)
    try:
        return None if url is None else Listing(ListingKind.REPOS, url, since=since).task()
    except ValueError:
        return None  # It has the characters of a host's name, and yet is none.


def _claims(rows: Sequence[Any], server: str) -> list[ListedAccount]:
    # Inactive ones, too: what their server says when asked is the reason on record.
    return [
        ListedAccount(row["did"], server, _text(row.get("rev")), row.get("active") is not False)
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("did"), str) and is_did(row["did"])
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _REV_CHARS else ""


_REV_CHARS = 64  # A rev has 13.
