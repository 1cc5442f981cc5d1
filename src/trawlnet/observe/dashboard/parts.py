"""The changing parts of the page: each has a name, and is sent again only when it differs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from trawlnet.engine.outcome import Reason
from trawlnet.observe.dashboard.charts import drawn
from trawlnet.observe.dashboard.following import LIVE_KEYS
from trawlnet.observe.dashboard.lanes import LanePage, LaneQuery
from trawlnet.observe.dashboard.place import (
    Action,
    CrawlCondition,
    CrawlerFacts,
    CrawlView,
    Panel,
)
from trawlnet.observe.dashboard.words import (
    UNKNOWN,
    clock_time,
    figure,
    lasting,
    moment,
    name_of,
)
from trawlnet.observe.lane_table import LaneRow
from trawlnet.observe.reports.html import macros
from trawlnet.observe.reports.numbers import number
from trawlnet.observe.reports.page import Tile

_html = macros(__package__, "parts.html")

_KINDS = {
    CrawlCondition.RUNNING: "good",
    CrawlCondition.PAUSED: "wait",
    CrawlCondition.DRAINING: "wait",
    CrawlCondition.CUT_SHORT: "bad",
}
_COLUMNS: Mapping[str, str] = {
    "lane": "Host",
    "condition": "State",
    "rate": "Requests/s",
    "in_flight": "In flight",
    "parked_until": "Parked until",
    "why": "Reason",
    "failures": "Failures in a row",
    "last_failure": "Last failure",
}
_NUMBERS = frozenset(("rate", "in_flight", "parked_until", "failures"))


def standing(look: CrawlView) -> Markup:
    """The state of the crawl, the one part whose changes a screen reader announces."""
    return _html.standing(look.standing, _KINDS.get(look.standing, ""), _story(look))


def _story(look: CrawlView) -> str:
    match look.standing:
        case CrawlCondition.NEVER:
            return "No crawl has started here, or its state cannot be read."
        case CrawlCondition.ENDED:
            left = look.counts.get("open", 0) - look.counts.get("blocked", 0)
            more = (
                f" {left:,} keys are open: run the command again to continue." if left > 0 else ""
            )
            return f"The crawl saved everything and exited; these are its last figures.{more}"
        case CrawlCondition.CUT_SHORT:
            return "The crawl was killed or stopped. Run the command again to continue from here."
        case CrawlCondition.DRAINING:
            return f"{look.who}: tasks in flight finish, then the crawl exits."
        case CrawlCondition.PAUSED:
            return f"{look.who}: no new task starts."
        case CrawlCondition.RUNNING:
            return look.who


def actions(look: CrawlView) -> Markup:
    shown = [(action, action in look.actions) for action in Action if action is not Action.RETRY]
    return _html.actions(look.crawler, shown)


def freshness(look: CrawlView) -> Markup:
    return escape(_freshness(look))


def _freshness(look: CrawlView) -> str:
    if look.is_fresh:
        return "Live."
    if look.as_of is None:
        return "No figures yet." if look.standing.at_work else ""
    return f"Figures as of {moment(look.as_of)}."


def tiles(look: CrawlView) -> Markup:
    elsewhere = _COMMON | LIVE_KEYS
    own = (key for key in look.figures if key not in look.yields and key not in elsewhere)
    yields = {key: n for key, n in look.yields.items() if key not in LIVE_KEYS}
    return _html.tiles(
        [
            *_progress(look),
            *_health(look),
            *(Tile(_yield_name(key), figure(key, n)) for key, n in yields.items()),
            *(Tile(name_of(key), figure(key, look.figures[key])) for key in own),
        ]
    )


def _progress(look: CrawlView) -> Iterator[Tile]:
    counts, figures = look.counts, look.figures
    rate = figures.get("rate") if look.is_fresh else None
    yield Tile("done", number(sum(counts.get("settled", {}).values())), "good")
    yield Tile("open", number(counts.get("open", 0)))
    yield Tile("keys per second", UNKNOWN if rate is None else number(rate))
    if look.standing.at_work:
        yield Tile("time left", lasting(look.eta if look.is_fresh else None))
        crew = f"{number(figures.get('in_flight', 0))} of {number(figures.get('workers', 0))}"
        yield Tile("tasks in flight", crew)


def _health(look: CrawlView) -> Iterator[Tile]:
    counts, figures = look.counts, look.figures
    failed = sum(n for word, n in counts.get("attempts", {}).items() if not _is_answer(word))
    yield Tile("failed attempts", number(failed), "bad" if failed else "")
    if blocked := counts.get("blocked", 0):
        yield Tile("blocked", number(blocked), "bad")
    if memory := figures.get("memory"):
        yield Tile("memory", figure("memory", memory))
    if disk := figures.get("disk_free"):
        yield Tile("free disk space", figure("disk_free", disk), "bad" if disk < _LITTLE else "")


def _yield_name(key: str) -> str:
    return f"PDSes {key}" if key in _OF_THE_REGISTRY else f"{name_of(key)}, this run"


_OF_THE_REGISTRY = frozenset(("scanning", "pending"))  # Temporary states.
_LITTLE = 2e9  # Bytes of disk.
# Figures that every crawl has in its history; the others belong to one crawler.
_COMMON = frozenset(
    (
        *("done", "open", "blocked", "rate", "attempts", "errors", "in_flight", "workers"),
        *("memory", "disk_free"),
    )
)


def _is_answer(word: str) -> bool:
    return word in Reason.__members__.values() and Reason(word).answer


def queue(look: CrawlView) -> Markup:
    """The number of keys in each state."""
    rows = [(words, look.counts.get(key, 0)) for key, words in _STATES.items()]
    return _html.queue(rows)


_STATES = {
    "known": "known",
    "open": "open: not done yet",
    "leased": "leased: in progress, part of open",
    "waiting": "waiting until a set time, part of open",
    "blocked": "on a blocked host, part of open",
    "scheduled": "scheduled for another visit",
}


@dataclass(frozen=True, slots=True)
class _ReasonRow:
    word: str
    attempts: int
    keys: int  # Whose final result it is.

    @property
    def retry(self) -> bool:
        good = self.word in Reason.__members__.values() and Reason(self.word).success
        return bool(self.keys) and not good


def reasons(look: CrawlView) -> Markup:
    """Attempts, and keys by their final result; most frequent first."""
    attempts, settled = look.counts.get("attempts", {}), dict(look.counts.get("settled", {}))
    if look.counts.get("blocked"):
        settled[Reason.BLOCKED] = look.counts["blocked"]
    words = sorted({*attempts, *settled}, key=lambda word: (-attempts.get(word, 0), word))
    rows = [_ReasonRow(word, attempts.get(word, 0), settled.get(word, 0)) for word in words]
    return _html.reasons(look.crawler, rows)


def panels(about: CrawlerFacts) -> Markup:
    return Markup("").join(map(_panel, about.panels))


def _panel(panel: Panel) -> Markup:
    inner = drawn(panel)
    return _html.more(inner, panel.link, panel.link_words) if panel.link else inner


def facts(about: CrawlerFacts) -> Markup:
    """The further lines of `status`."""
    rows = [
        (name_of(key), figure(key, value), not isinstance(value, str))
        for key, value in about.facts.items()
        if value is None or isinstance(value, int | float | str)
    ]
    return _html.facts(rows)


@dataclass(frozen=True, slots=True)
class _Head:
    name: str
    query: Mapping[str, str]  # The URL parameters of the page sorted by this column.
    order: str | None
    is_number: bool


def lane_heads(wish: LaneQuery, query_so_far: Mapping[str, str]) -> Markup:
    return _html.lane_heads([_head(key, wish, query_so_far) for key in _COLUMNS])


def _head(key: str, wish: LaneQuery, query_so_far: Mapping[str, str]) -> _Head:
    down = not wish.down if key == wish.sort else key not in ("lane", "why", "last_failure")
    query = {**query_so_far, **_asked(wish), "sort": key, "down": str(int(down)), "page": "0"}
    order = ("descending" if wish.down else "ascending") if key == wish.sort else None
    return _Head(_COLUMNS[key], query, order, key in _NUMBERS)


def lane_pages(
    look: CrawlView, chosen: LanePage, wish: LaneQuery, query_so_far: Mapping[str, str]
) -> Markup:
    """The number of rows, and links to the other pages."""
    words = f"{chosen.found:,} of {chosen.total:,} hosts"
    if look.lanes.left_out:
        words += f"; {look.lanes.left_out:,} more are not listed"
    query = {**query_so_far, **_asked(wish)}
    steps: list[tuple[str, Mapping[str, str] | None]] = []
    if chosen.page > 0:
        steps.append(("Previous", {**query, "page": str(chosen.page - 1)}))
    if chosen.pages > 1:
        steps.append((f"page {chosen.page + 1:,} of {chosen.pages:,}", None))
    if chosen.page + 1 < chosen.pages:
        steps.append(("Next", {**query, "page": str(chosen.page + 1)}))
    return _html.lane_pages(words, steps)


def _asked(wish: LaneQuery) -> dict[str, str]:
    asked = {"q": wish.contains, "condition": wish.condition, "sort": wish.sort}
    return {key: value for key, value in asked.items() if value} | {"down": str(int(wish.down))}


def lane_key(row: LaneRow) -> str:
    """An HTML id for the row, without any text from servers."""
    return "l" + hashlib.blake2b(row.lane.encode("utf-8", "replace"), digest_size=8).hexdigest()


def lane_row(row: LaneRow) -> Markup:
    why = row.why if row.condition in ("parked", "blocked") else ""
    dot = _DOTS.get(row.condition, "")
    return _html.lane_row(lane_key(row), row, dot, _until(row), why)


_DOTS = {"healthy": "good", "slowed": "wait", "parked": "wait", "blocked": "bad"}


def _until(row: LaneRow) -> str:
    if row.condition == "blocked":
        return "a retry"
    return "" if row.parked_until is None else clock_time(row.parked_until)


def lane_rows(rows: Sequence[LaneRow]) -> Mapping[str, Markup]:
    return {lane_key(row): lane_row(row) for row in rows}
