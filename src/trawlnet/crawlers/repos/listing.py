"""What a page of a listing tells: pure, and suspicious of pages that lead nowhere."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

import orjson

from trawlnet.crawlers.repos.claims import Claim
from trawlnet.crawlers.repos.work import Listed, Listing
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.task import Task
from trawlnet.formats.syntax import is_did

PAGE_BYTES = 4 << 20  # A full page takes a tenth of this.
_CURSOR_CHARS = 2000
_PAGES = 50_000  # The largest PDS known lists 22 million accounts, 1000 to a page.
_IDLE_PAGES = 20  # In a row; servers that filter their pages send empty ones now and then.
_REMEMBERED = 8  # Pages; a server that goes in circles mostly goes in small ones.


@dataclass(frozen=True, slots=True)
class HostRules:
    """Which of the hosts that a relay names are visited, and how."""

    allow_private: bool = False
    skip: frozenset[str] = frozenset()  # Lanes.


def listing_url(listing: Listing) -> str:
    method = "listHosts" if listing.what is Listed.HOSTS else "listRepos"
    after = f"&cursor={quote(listing.cursor, safe='')}" if listing.cursor else ""
    return f"{listing.server}/xrpc/com.atproto.sync.{method}?limit=1000{after}"


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Everything that a page names."""

    hosts: Sequence[Task]  # The first listing of each.
    claims: Sequence[Claim]  # Accounts that are said to be there.
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
    page = _parse(body, listing.what)
    if page is None:
        return None
    hosts: list[Task] = []
    claims: list[Claim] = []
    if listing.what is Listed.HOSTS:
        hosts = _host_tasks(page.rows, rules)
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


@dataclass(frozen=True, slots=True)
class _Page:
    rows: Sequence[Any]
    cursor: str


def _parse(body: bytes, what: Listed) -> _Page | None:
    try:
        page = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(page, dict):
        return None
    rows, cursor = page.get(str(what)), page.get("cursor") or ""
    if not isinstance(rows, list) or not isinstance(cursor, str) or len(cursor) > _CURSOR_CHARS:
        return None
    return _Page(rows, cursor)


def _page_after(listing: Listing, page: _Page) -> Listing | str:
    """The next page, or why there is none in spite of a cursor."""
    digest = zlib.crc32(orjson.dumps(page.rows))
    idle = 0 if page.rows else listing.idle + 1
    if page.cursor == listing.cursor:
        return "the cursor repeats"
    if page.rows and digest in listing.recent:
        return "the same page again"
    if idle >= _IDLE_PAGES:
        return f"{idle} empty pages in a row"
    if listing.number >= _PAGES:
        return f"more than {_PAGES} pages"
    return replace(
        listing,
        cursor=page.cursor,
        number=listing.number + 1,
        idle=idle,
        recent=(*listing.recent, digest)[-_REMEMBERED:],
    )


def _host_tasks(rows: Sequence[Any], rules: HostRules) -> list[Task]:
    tasks = []
    for row in rows:
        name = row.get("hostname") if isinstance(row, dict) else None
        # Offline and idle hosts may answer today; a banned one the relay's people know better.
        if not isinstance(name, str) or row.get("status") == "banned":
            continue
        task = _host_task(name, rules)
        if task is not None and task.lane not in rules.skip:
            tasks.append(task)
    return tasks


def _host_task(name: str, rules: HostRules) -> Task | None:
    url = _pds_url(name, rules)
    try:
        return None if url is None else Listing(Listed.REPOS, url).task()
    except ValueError:
        return None  # It has the characters of a host's name, and yet is none.


_HOST = re.compile(r"(?P<host>[a-zA-Z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::(?P<port>\d{1,5}))?")


def _pds_url(name: str, rules: HostRules) -> str | None:
    """The URL of a host without a scheme; None for what is no host."""
    match = _HOST.fullmatch(name)
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        return None
    # Relays name hosts without a scheme. Private worlds have no certificates.
    plain = rules.allow_private and (_is_address(match["host"]) or match["host"] == "localhost")
    return f"{'http' if plain else 'https'}://{name.lower()}"


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _claims(rows: Sequence[Any], server: str) -> list[Claim]:
    # Inactive ones, too: what their server says when asked is the reason on record.
    return [
        Claim(row["did"], server, _text(row.get("rev")), row.get("active") is not False)
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("did"), str) and is_did(row["did"])
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _REV_CHARS else ""


_REV_CHARS = 64  # A rev has 13.
