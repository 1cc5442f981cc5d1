"""The table of lanes: filters and sorts thousands of rows, and selects one page of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trawlnet.observe.lane_table import LaneRow
from trawlnet.observe.lanes import LaneCondition

PAGE_ROWS = 50
_LONGEST_QUERY = 100  # Characters.
_MOST_PAGES = 1_000_000
_USUAL_SORT = "condition"


@dataclass(frozen=True, slots=True)
class LaneQuery:
    """The filter, order and page that a viewer asks for."""

    sort: str = _USUAL_SORT
    down: bool = True
    contains: str = ""
    condition: str = ""
    page: int = 0


@dataclass(frozen=True, slots=True)
class LanePage:
    rows: Sequence[LaneRow]
    found: int  # Matching rows, on all pages.
    total: int
    page: int
    pages: int


def wish_of(query: Mapping[str, str]) -> LaneQuery:
    """Read from the URL of the page; invalid parameters get the defaults."""
    page = query.get("page", "")
    sort, condition = query.get("sort", ""), query.get("condition", "")
    return LaneQuery(
        sort=sort if sort in SORTS else _USUAL_SORT,
        down=query.get("down", "1") != "0",
        contains=query.get("q", "")[:_LONGEST_QUERY],
        condition=condition if condition in LaneCondition.__members__.values() else "",
        page=min(int(page), _MOST_PAGES) if page.isascii() and page.isdigit() else 0,
    )


def choose(rows: Sequence[LaneRow], wish: LaneQuery) -> LanePage:
    wanted, part = [], wish.contains.casefold()
    for row in rows:
        if wish.condition and row.condition != wish.condition:
            continue
        if part and part not in row.lane.casefold():
            continue
        wanted.append(row)
    # Sorted by name first, so that equal rows do not swap places every second.
    wanted.sort(key=lambda row: row.lane)
    wanted.sort(key=SORTS[wish.sort], reverse=wish.down)
    pages = max(1, math.ceil(len(wanted) / PAGE_ROWS))
    page = min(wish.page, pages - 1)
    shown = wanted[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
    return LanePage(shown, len(wanted), len(rows), page, pages)


_TROUBLE: Mapping[str, int] = {word: rank for rank, word in enumerate(LaneCondition)}

SORTS: Mapping[str, Callable[[LaneRow], Any]] = {
    "lane": lambda row: row.lane,
    "condition": lambda row: (_TROUBLE.get(row.condition, 0), row.in_flight),
    "rate": lambda row: math.inf if row.rate is None else row.rate,
    "in_flight": lambda row: row.in_flight,
    "parked_until": lambda row: row.parked_until or 0.0,
    "why": lambda row: row.why,
    "failures": lambda row: row.failures,
    "last_failure": lambda row: row.last_failure,
}
