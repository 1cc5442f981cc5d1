"""The part of the page about live following: how far behind, what was believed, what was not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from trawlnet.observe.dashboard.place import CrawlerFacts, CrawlView
from trawlnet.observe.dashboard.words import UNKNOWN, lasting
from trawlnet.observe.lanes import shown
from trawlnet.observe.reports import chart
from trawlnet.observe.reports.html import macros
from trawlnet.observe.reports.numbers import number
from trawlnet.observe.reports.page import Tile
from trawlnet.observe.reports.rows import top

_html = macros(__package__, "parts.html")

# Figures of the history that this part shows; they are counted over all runs.
LIVE_KEYS = frozenset(
    ("commits", "commits/s", "verified", "rejected", "desynchronized", "resyncs", "seconds behind")
)
_MOST_HOSTS = 100
_WORDS = 160  # Characters of a trouble.
_LATE = 60.0  # Seconds behind that are worth a colour.

Live = Mapping[str, Any]


def live_of(look: CrawlView, about: CrawlerFacts) -> Live | None:
    """`live` of the running process, else as it was saved; None where nothing was followed."""
    live = look.counts.get("live") or about.facts.get("live")
    return live if isinstance(live, Mapping) else None


def following(live: Live | None) -> Markup:
    if live is None:
        return Markup("")
    note = "Firehoses that are followed; counted over all runs."
    summary = _html.live("Live", note, list(_tiles(live)), _firehoses(live))
    return summary + _reasons(live) + _resyncs(live)


def _tiles(live: Live) -> Iterator[Tile]:
    behind = live.get("seconds_behind")
    is_late = behind is not None and behind > _LATE
    yield Tile("seconds behind", lasting(behind), "wait" if is_late else "good")
    rate = live.get("commits_per_s")
    yield Tile("commits per second", UNKNOWN if rate is None else number(rate))
    yield Tile("commits", number(live.get("commits", 0)))
    yield Tile("commits verified", number(live.get("verified", 0)), "good")
    rejected = sum(live.get("rejected", {}).values())
    yield Tile("messages rejected", number(rejected), "bad" if rejected else "")
    behind_now = live.get("desynchronized", 0)
    yield Tile("desynchronized", number(behind_now), "wait" if behind_now else "")
    yield Tile("resyncs", number(live.get("resyncs", 0)))
    waiting = live.get("waiting", {}).get("frames")
    yield Tile("messages waiting", UNKNOWN if waiting is None else number(waiting))
    yield Tile("events", number(live.get("events", 0)))
    yield Tile("gaps", number(live.get("gaps", 0)))
    comparing = live.get("comparing", 0)
    yield Tile("pages to compare", number(comparing), "wait" if comparing else "")


@dataclass(frozen=True, slots=True)
class _Firehose:
    host: str
    state: str
    dot: str
    behind: str


def _firehoses(live: Live) -> list[_Firehose]:
    """Those that are furthest behind first."""
    now, troubles = live.get("upstreams", {}), live.get("troubles", {})

    def delay(host: str) -> float:
        return float(now.get(host, {}).get("seconds_behind") or 0.0)

    hosts = sorted({*live.get("cursor", {}), *now}, key=lambda one: (-delay(one), one))
    rows = [_firehose(host, now.get(host), troubles.get(host, "")) for host in hosts[:_MOST_HOSTS]]
    if why := troubles.get("event_queue"):
        # All of them wait for it.
        waited = f"waited for: {shown(why, _WORDS)}"
        rows.insert(0, _Firehose("event queue", waited, "bad", UNKNOWN))
    return rows


def _firehose(host: str, now: Live | None, trouble: str) -> _Firehose:
    name = shown(host)
    if now is None:
        return _Firehose(name, "not followed now", "", UNKNOWN)
    behind = lasting(now.get("seconds_behind"))
    if now.get("connected"):
        return _Firehose(name, "connected", "good", behind)
    why = f": {shown(trouble, _WORDS)}" if trouble else ""
    return _Firehose(name, f"not connected{why}", "bad", behind)


def _reasons(live: Live) -> Markup:
    rows = top({word.replace("_", " "): n for word, n in live.get("rejected", {}).items()})
    note = "Messages that failed verification; they change nothing."
    column = chart.ExtraColumn("messages")
    return chart.bars("Rejected, by reason", rows, column, first="reason", note=note)


def _resyncs(live: Live) -> Markup:
    begun, ended = live.get("resyncs_begun", {}), live.get("resyncs_ended", {})
    rows = [("begun: " + word.replace("_", " "), n) for word, n in top(begun)]
    rows += [("ended: " + word.replace("_", " "), n) for word, n in top(ended)]
    note = "Why repositories became desynchronized, and how that ended."
    return chart.table("Resyncs", ("cause or result", "repositories"), rows, note=note)
