"""One crawl as the dashboard sees it: its state, its facts, and the commands it accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from trawlnet.engine.outcome import Reason
from trawlnet.observe.history import Sample
from trawlnet.observe.lane_table import LaneTable

_FRESH = 15.0  # Seconds after which the figures of a running crawl are called old.


class Draw(StrEnum):
    BARS = "bars"
    COLUMNS = "columns"
    LINES = "lines"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Panel:
    """A table or chart that only one crawler has; any text in it may come from servers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    draw: Draw = Draw.TABLE
    note: str = ""
    unit: str = ""
    link: str = ""  # A page of this site with more.
    link_words: str = ""


@dataclass(frozen=True, slots=True)
class CrawlerFacts:
    """Facts that only one crawler has."""

    facts: Mapping[str, Any]
    panels: Sequence[Panel]
    keeps: float = 5.0  # Seconds for which the facts are fresh.
    leads: bool = False  # Show them before the hosts.


class CrawlCondition(StrEnum):
    """The condition of a crawl, as seen from outside."""

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    ENDED = "ended"
    CUT_SHORT = "cut short"  # Killed or stopped; running the command again continues it.
    NEVER = "not begun"

    @property
    def at_work(self) -> bool:
        return self in (CrawlCondition.RUNNING, CrawlCondition.PAUSED, CrawlCondition.DRAINING)


class Action(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    STOP = "stop"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class ActionOrder:
    crawler: str
    action: Action
    reason: Reason | None = None  # Of a retry; None for all.


def order_of(crawler: str, action: str, reason: str) -> ActionOrder | None:
    """None for an invalid order."""
    if action not in Action.__members__.values():
        return None
    if action == Action.RETRY and reason:
        known = reason in Reason.__members__.values()
        return ActionOrder(crawler, Action.RETRY, Reason(reason)) if known else None
    return ActionOrder(crawler, Action(action))


@dataclass(frozen=True, slots=True)
class CrawlView:
    """A crawl at one instant."""

    crawler: str
    now: float
    standing: CrawlCondition
    who: str  # The running process, or the number of running shards.
    as_of: float | None  # The time of the figures and lanes; None if there are none.
    counts: Mapping[str, Any]  # In the shape of `status`.
    figures: Mapping[str, float]  # The latest sample of the history.
    lanes: LaneTable
    yields: Mapping[str, float]  # The results of this run.
    eta: float | None = None  # Seconds.
    actions: tuple[Action, ...] = ()  # Commands that are possible now, besides a retry.

    @property
    def is_fresh(self) -> bool:
        return self.standing.at_work and self.as_of is not None and self.now - self.as_of < _FRESH


class Unreadable(Exception):
    """The data cannot be read now; the page shows the last known data."""


class NotDone(Exception):
    """A command was not carried out, for a reason that the page gives."""


class CrawlPlace(Protocol):
    """Access to one crawl. All methods may be slow; only `obey` and `sweep` change anything."""

    crawler: str
    can: frozenset[Action]  # All commands that it accepts.

    async def look(self, now: float) -> CrawlView:
        """Also tells the crawl that a dashboard watches. Raises Unreadable."""

    async def facts(self) -> CrawlerFacts:
        """Raises Unreadable."""

    async def history(self, since: float, most: int) -> Sequence[Sample]:
        """At most `most` samples, evenly thinned out. Raises Unreadable."""

    async def obey(self, order: ActionOrder) -> str:
        """Carry out the command; returns a sentence about it. Raises NotDone."""

    def sweep(self) -> None:
        """Remove control files that are no longer needed."""
