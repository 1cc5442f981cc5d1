"""One crawl as the dashboard knows it: how it stands, what it tells, and what it can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from trawlnet.engine.outcome import Reason
from trawlnet.observe.history import Sample
from trawlnet.observe.lane_table import LaneTable

_FRESH = 15.0  # Seconds after which figures of a crawl that runs are called old.


class Draw(StrEnum):
    BARS = "bars"
    COLUMNS = "columns"
    LINES = "lines"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Something that only one crawler has to show; every text in it may be a stranger's."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    draw: Draw = Draw.TABLE
    note: str = ""
    unit: str = ""
    link: str = ""  # Where there is more, on this site.
    link_words: str = ""


@dataclass(frozen=True, slots=True)
class CrawlerFacts:
    """What a crawler says in its own terms."""

    facts: Mapping[str, Any]
    exhibits: Sequence[Exhibit]
    keeps: float = 5.0  # Seconds after which it is worth asking again.
    leads: bool = False  # Of more interest than the hosts.


class CrawlCondition(StrEnum):
    """How a crawl stands, to someone outside it."""

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    ENDED = "ended"
    CUT_SHORT = "cut short"  # Killed, or stopped at once; it goes on when it is run again.
    NEVER = "not begun"

    @property
    def at_work(self) -> bool:
        return self in (CrawlCondition.RUNNING, CrawlCondition.PAUSED, CrawlCondition.DRAINING)


class Deed(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    STOP = "stop"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class DeedOrder:
    crawler: str
    deed: Deed
    reason: Reason | None = None  # Of a retry; None for all.


def order_of(crawler: str, deed: str, reason: str) -> DeedOrder | None:
    """None for what is no order."""
    if deed not in Deed.__members__.values():
        return None
    if deed == Deed.RETRY and reason:
        known = reason in Reason.__members__.values()
        return DeedOrder(crawler, Deed.RETRY, Reason(reason)) if known else None
    return DeedOrder(crawler, Deed(deed))


@dataclass(frozen=True, slots=True)
class CrawlView:
    """A crawl at one instant."""

    crawler: str
    now: float
    standing: CrawlCondition
    who: str  # At work: a process, or so many shards.
    as_of: float | None  # When the figures and the lanes were taken; None if there are none.
    counts: Mapping[str, Any]  # In the shape of `status`.
    figures: Mapping[str, float]  # The latest of those that are in the history.
    lanes: LaneTable
    yields: Mapping[str, float]  # What this run has brought in.
    eta: float | None = None  # Seconds.
    deeds: tuple[Deed, ...] = ()  # What makes sense now, besides a retry.

    @property
    def is_fresh(self) -> bool:
        return self.standing.at_work and self.as_of is not None and self.now - self.as_of < _FRESH


class Unreadable(Exception):
    """What was asked for cannot be read now; the page shows what it knew."""


class CrawlPlace(Protocol):
    """Where a crawl is. All of it may be slow, and only `obey` and `sweep` change anything."""

    crawler: str
    can: frozenset[Deed]  # All that it can ever be told.

    async def look(self, now: float) -> CrawlView:
        """Tells the crawl, too, that somebody watches. Raises Unreadable."""

    async def facts(self) -> CrawlerFacts:
        """Raises Unreadable."""

    async def history(self, since: float, most: int) -> Sequence[Sample]:
        """At most so many, evenly left out. Raises Unreadable."""

    async def obey(self, order: DeedOrder) -> str:
        """Do it, and say in a sentence what was done."""

    def sweep(self) -> None:
        """Remove what an order has left and nobody needs any more."""
