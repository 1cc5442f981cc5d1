"""The registry page by page, in the order that somebody wants to see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from trawlnet.tables.registry.bans import literally
from trawlnet.tables.registry.notes import FOLDER
from trawlnet.tables.registry.rows import row_of
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus
from trawlnet.tables.relational.database import Relational, Values, named


class Sort(StrEnum):
    NAME = "name"
    RECORDS = "records"
    ACCOUNTS = "accounts"
    SCANNED = "scanned"  # The latest scan first.
    FAILURES = "failures"


@dataclass(frozen=True, slots=True)
class BrowsePage:
    rows: Sequence[PdsRow]
    total: int  # Rows that fit, on all pages.
    records: int
    accounts: int


@dataclass(frozen=True, slots=True)
class BrowseQuery:
    """Which rows, and which page of them."""

    contains: str = ""
    status: PdsStatus | None = None
    source: PdsSource | None = None
    sort: Sort = Sort.NAME
    page: int = 1
    size: int = 25


async def browse(db: Relational, wish: BrowseQuery) -> BrowsePage:
    pattern = f"%{literally(wish.contains.lower())}%" if wish.contains else ""
    fits: Values = {
        "status": str(wish.status or ""),
        "source": str(wish.source or ""),
        "pattern": pattern,
    }
    skip = (wish.page - 1) * wish.size
    part: Values = {"sort": str(wish.sort), "count": wish.size, "skip": skip}
    async with db.transaction() as transaction:
        rows = await transaction.rows(named(FOLDER, "browse", db.dialect), {**fits, **part})
        ((total, records, accounts),) = await transaction.rows(
            named(FOLDER, "browse_total", db.dialect), fits
        )
    return BrowsePage([row_of(row) for row in rows], int(total), int(records), int(accounts))
