"""The report of a web crawl: charts for people, and figures for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from trawlnet.crawlers.web.survey import WebSurvey
from trawlnet.engine.ports import Counts
from trawlnet.observe.reports.chart import ExtraColumn, bars, columns
from trawlnet.observe.reports.numbers import number
from trawlnet.observe.reports.page import Report, Tile
from trawlnet.observe.reports.rows import (
    SHOWN,
    by_number,
    by_power,
    minute,
    over_time,
    size,
    span,
    top,
)

_PAGES = ExtraColumn("captures")
_URLS = ExtraColumn("URLs")
_BYTES = ExtraColumn("size", "bytes")
_LINKS = ExtraColumn("links")
# The labels of a crawl's counters.
_LEFT_OUT = {
    "robots_denied": "robots.txt denies it",
    "policy_denied": "out of scope, or denied by a pattern",
    "cap_exceeded": "over a cap",
    "too_deep": "too many links from a seed",
    "already_seen": "known already",
}


@dataclass(frozen=True, slots=True)
class WebFacts:
    """The data of a report."""

    seen: WebSurvey
    counts: Counts
    counters: Mapping[str, float] = field(default_factory=dict)  # Of the last run.


def as_report(facts: WebFacts, place: str, now: float) -> Report:
    seen, counts = facts.seen, facts.counts
    failed = sum(n for reason, n in counts.settled.items() if not reason.answer) + counts.blocked
    tiles = [
        Tile("pages", number(seen.pages), "good"),
        Tile("captures", number(seen.captures), "good"),
        Tile("hosts", number(len(seen.hosts))),
        Tile("links", number(seen.links)),
        Tile("fetched", size(seen.bytes_fetched)),
        Tile("of it repeated", _share(seen.bytes_repeated, seen.bytes_fetched)),
        Tile("still to fetch", number(counts.open), "wait" if counts.open else ""),
        Tile("failed", number(failed), "bad" if failed else ""),
    ]
    lead = f"{place}: captured {span(seen.first, seen.last)}; read {minute(now)} UTC."
    return Report("Web crawl report", lead, tiles, _figures(facts))


def _figures(facts: WebFacts) -> list[Markup]:
    seen, counts = facts.seen, facts.counts
    word, hours = over_time(seen.hours)
    settled = {str(reason): n for reason, n in counts.settled.items() if not reason.success}
    if counts.blocked:
        settled["blocked"] = settled.get("blocked", 0) + counts.blocked
    attempts = {str(reason): n for reason, n in counts.attempts.items()}
    left = {_LEFT_OUT[name]: facts.counters.get(name, 0) for name in _LEFT_OUT}
    return [
        columns(f"Captures by the {word}", hours, _PAGES, first=word),
        bars("Captures by host", top(seen.hosts), _PAGES, first="host"),
        bars("Bytes by host", top(seen.bytes_by_host), _BYTES, first="host", note=_INFLATED),
        bars("By type of page", top(seen.page_types), _PAGES, first="type"),
        bars("By status of the answer", top(seen.statuses), _PAGES, first="status"),
        bars("By content type", top(seen.content_types), _PAGES, first="content type"),
        columns("By links from a seed", by_number(seen.depths), _PAGES, first="depth"),
        columns("Stored bodies by size", by_power(seen.sizes), ExtraColumn("bodies"),
                first="at least", note=_INFLATED),
        bars("Bytes stored and repeated", _bytes(seen), _BYTES, first="bytes", note=_REPEATED),
        bars("URLs without a page, by reason", top(settled), _URLS, first="reason",
             note="refused: robots.txt, the scope or a cap says no. blocked: the host failed too"
                  " often, and waits for a retry."),
        bars("Attempts by result", top(attempts), ExtraColumn("attempts"), first="result"),
        bars("Links not followed in the last run, by reason", top(_some(left)), _LINKS,
             first="reason", note="Counted each time a page has such a link."),
        bars("Most linked hosts", top(seen.linked_hosts), _LINKS, first="host"),
        bars("Most linked pages", top(_most(seen))[:SHOWN], _LINKS, first="page",
             whole=seen.links,
             note="Approximate: rare targets are dropped." if seen.linked_pages.forgotten
             else ""),
    ]  # fmt: skip


_INFLATED = "As they were before storing, inflated."
_REPEATED = "A body that is the same as one met before is stored once. About: one in a"\
    " thousand may be taken for another."  # fmt: skip


def as_json(facts: WebFacts) -> dict[str, Any]:
    seen, counts = facts.seen, facts.counts
    return {
        "captures": seen.captures,
        "pages": seen.pages,
        "stored": seen.stored,
        "unchanged": seen.unchanged,
        "redirects": seen.redirects,
        "links": seen.links,
        "bytes": seen.bytes_fetched,
        "bytes_repeated": seen.bytes_repeated,
        "latency_ms_mean": round(seen.latency_ms / seen.captures, 3) if seen.captures else None,
        "hosts": dict(seen.hosts.most_common()),
        "bytes_by_host": dict(seen.bytes_by_host.most_common()),
        "page_types": dict(seen.page_types.most_common()),
        "statuses": dict(sorted(seen.statuses.items())),
        "content_types": dict(seen.content_types.most_common()),
        "depths": {str(depth): n for depth, n in sorted(seen.depths.items())},
        "sizes": {str(1 << power): n for power, n in sorted(seen.sizes.items())},
        "hours": {minute(hour * 3600): n for hour, n in sorted(seen.hours.items())},
        "open": counts.open,
        "settled": {str(reason): n for reason, n in counts.settled.items() if n},
        "attempts": {str(reason): n for reason, n in counts.attempts.items() if n},
        "last_run": dict(facts.counters),
        "linked_hosts": dict(seen.linked_hosts.most_common()),
        "linked_pages": _most(seen),
    }


_MOST_LINKED = 100


def _most(seen: WebSurvey) -> dict[str, int]:
    return dict(seen.linked_pages.counts.most_common(_MOST_LINKED))


def _bytes(seen: WebSurvey) -> list[tuple[str, float]]:
    stored = seen.bytes_fetched - seen.bytes_repeated
    return [("stored", stored), ("repeated", seen.bytes_repeated)] if seen.bytes_fetched else []


def _some(counts: Mapping[str, float]) -> Mapping[str, float]:
    return {name: value for name, value in counts.items() if value}


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else number(None)
