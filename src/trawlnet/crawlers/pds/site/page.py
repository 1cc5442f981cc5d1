"""The overview page: figures, a search and a form, in plain HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from trawlnet.engine.outcome import Reason
from trawlnet.observe.reports import chart
from trawlnet.observe.reports.html import render
from trawlnet.observe.reports.numbers import number
from trawlnet.tables.registry.browse import BrowsePage, BrowseQuery, Sort
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus
from trawlnet.tables.registry.stats import HourlyScans, Stats

_SHOWN_ERROR = 120  # Characters.
_LONGEST_ERROR = 300
_HOUR = 3600  # Seconds.
_HOURS = 48
_PDSES = chart.ExtraColumn("PDSes")


@dataclass(frozen=True, slots=True)
class PageFigures:
    stats: Stats
    largest: Sequence[PdsRow]
    now: float


_ANYTHING = BrowseQuery()


@dataclass(frozen=True, slots=True)
class Search:
    """A search and its result; without a query there is no result."""

    wish: BrowseQuery = _ANYTHING
    found: BrowsePage | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """The message of the form about the last registration."""

    text: str
    good: bool
    value: str = ""  # The user's input, to correct it.


@dataclass(frozen=True, slots=True)
class _Tile:
    status: PdsStatus
    label: str
    gloss: str
    count: int


@dataclass(frozen=True, slots=True)
class _Host:
    """A row of the table."""

    href: str
    host: str
    error: str
    status: PdsStatus
    label: str
    accounts: int | None
    records: int | None
    scanned: str


@dataclass(frozen=True, slots=True)
class _Link:
    rel: str
    href: str
    text: str


@dataclass(frozen=True, slots=True)
class _RegistryPages:
    here: int
    last: int
    links: Sequence[_Link]


def overview(figures: PageFigures, search: Search, notice: Notice | None) -> str:
    stats, wish, found = figures.stats, search.wish, search.found
    rows = figures.largest if found is None else found.rows
    title = f"{wish.contains}: PDS registry" if wish.contains else "PDS registry"
    return render(
        __package__,
        "overview.html",
        title=title,
        here="overview",
        total=stats.total,
        tiles=[_Tile(one, *_STATUSES[one], stats.by_status.get(one, 0)) for one in PdsStatus],
        scans=scans_by_hour(stats.scans, figures.now),
        wish=wish,
        statuses=_named(PdsStatus, _STATUS_LABELS),
        sources=_named(PdsSource, _SOURCES),
        sorts=_SORTS,
        summary=_summary(figures, search),
        rows=[_host(row) for row in rows],
        pages=None if found is None else _pages(wish, found),
        notice=notice,
        by_source=_by_source(stats.by_source),
        by_failure=_by_failure(stats.failures),
    )


def single(row: PdsRow, now: float) -> str:
    """The page of one PDS: every column that means something to people."""
    due = "now" if (row.next_scan_at or 0.0) <= now else _when(row.next_scan_at)
    how = f", {row.last_reason.replace('_', ' ')}" if row.last_reason else ""
    is_scanned = row.last_scan_at is not None
    facts = {
        "Status": f"{_STATUSES[row.status][0]}: {_STATUSES[row.status][1]}",
        "Discovered": f"{_when(row.discovered_at)} ({_SOURCES[row.discovery_source]})",
        "Connected to a relay": "yes" if row.is_relay_connected else "unknown",
        "Accounts": number(row.account_count),
        "Records": number(row.chive_record_count if is_scanned else None),
        "Indexed records": number(row.indexed_record_count if is_scanned else None),
        "Last complete scan": _when(row.last_scan_at),
        "Last attempt": f"{_when(row.last_try_at)}{how}",
        "Failures in a row": number(row.consecutive_failures),
        "Last error": (row.last_error or "none")[:_LONGEST_ERROR],
        "Next scan": due,
    }
    host = row.pds_url.removeprefix("https://")
    json = f"api/pds?{urlencode({'q': host, 'limit': 1})}"
    title, url = f"{host}: PDS registry", row.pds_url
    return render(
        __package__, "single.html", title=title, host=host, url=url, facts=facts, json=json
    )


def trouble(title: str, message: str, root: str) -> str:
    return render(__package__, "trouble.html", title=title, message=message, root=root)


@cache
def packaged(path: str) -> bytes:
    """A file that comes with the program."""
    return files(__package__).joinpath(path).read_bytes()


def scans_by_hour(scans: Sequence[HourlyScans], now: float) -> Markup:
    """Two days up to this hour, also the hours without a scan."""
    counted = {int(one.hour): one.results for one in scans}
    this = int(now) // _HOUR * _HOUR
    starts = range(this - (_HOURS - 1) * _HOUR, this + 1, _HOUR)
    names = [f"{datetime.fromtimestamp(start, UTC):%m-%d %H:00}" for start in starts]
    stacks = [
        chart.Stack(
            name, kind, [sum(counted.get(at, {}).get(one, 0) for one in of) for at in starts]
        )
        for name, kind, of in _RESULTS
    ]
    return chart.stacked("Scans of the last two days", names, stacks, first="Hour (UTC)")


def _by_source(counts: Mapping[PdsSource, int]) -> Markup:
    known = [
        source for source in PdsSource if source is not PdsSource.UNKNOWN or counts.get(source)
    ]
    rows = [(_SOURCES[source], counts.get(source, 0)) for source in known]
    return chart.bars("By source", rows, _PDSES, first="Source")


def _by_failure(counts: Mapping[Reason, int]) -> Markup:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = [(reason.replace("_", " "), count) for reason, count in ranked if count]
    return chart.bars("PDSes whose last scan failed", rows, _PDSES, first="Reason")


def _named(words: Iterable[StrEnum], labels: Mapping[Any, str]) -> Mapping[str, str]:
    return {"": "Any", **{str(word): labels[word] for word in words if word in labels}}


def _summary(figures: PageFigures, search: Search) -> str:
    """The sentence above the table: its contents, or why it is empty."""
    found, wish = search.found, search.wish
    if found is None:
        if not figures.largest:
            return "The registry is empty. Register the first PDS."
        return "The PDSes with most records."
    if not found.rows:
        return "No PDS matches. Try a shorter part of its name."
    first = (wish.page - 1) * wish.size + 1
    return (
        f"{found.total:,} found, with {found.records:,} records and {found.accounts:,} accounts"
        f" (as relays report them). Showing {first:,} to {first + len(found.rows) - 1:,}."
    )


def _pages(wish: BrowseQuery, found: BrowsePage) -> _RegistryPages:
    last = -(-found.total // wish.size)
    links = []
    if wish.page > 1:
        links.append(_Link("prev", _href(wish, wish.page - 1), "Previous"))
    if wish.page < last:
        links.append(_Link("next", _href(wish, wish.page + 1), "Next"))
    return _RegistryPages(wish.page, last, links)


def _href(wish: BrowseQuery, page: int) -> str:
    asked = {"q": wish.contains, "status": wish.status, "source": wish.source, "sort": wish.sort}
    query = {name: str(value) for name, value in asked.items() if value}
    return f"./?{urlencode(query | {'page': str(page)})}#find"


def _host(row: PdsRow) -> _Host:
    return _Host(
        href=f"pds?{urlencode({'url': row.pds_url})}",
        host=row.pds_url.removeprefix("https://"),
        error=(row.last_error or "")[:_SHOWN_ERROR],
        status=row.status,
        label=_STATUSES[row.status][0],
        accounts=row.account_count,
        records=row.chive_record_count if row.last_scan_at else None,
        scanned=_when(row.last_scan_at),
    )


def _when(instant: float | None) -> str:
    return "never" if instant is None else f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%d %H:%M}"


_STATUSES = {
    PdsStatus.PENDING: ("Pending", "waiting for the first scan"),
    PdsStatus.ACTIVE: ("Active", "has records, scanned daily"),
    PdsStatus.SCANNING: ("Scanning", "a scan is running"),
    PdsStatus.UNREACHABLE: ("Unreachable", "five scans in a row failed"),
    PdsStatus.NO_CHIVE_RECORDS: ("No records", "scanned every 7 days"),
}
_STATUS_LABELS = {status: label for status, (label, _) in _STATUSES.items()}
_SORTS = {
    str(Sort.NAME): "Name",
    str(Sort.RECORDS): "Most records",
    str(Sort.ACCOUNTS): "Most accounts",
    str(Sort.SCANNED): "Latest scan",
    str(Sort.FAILURES): "Most failures",
}
_SOURCES = {
    PdsSource.PLC: "PLC directory",
    PdsSource.RELAY: "Relays",
    PdsSource.USER: "Registered by users",
    PdsSource.DID: "DID document",
    PdsSource.UNKNOWN: "Other",
}
# What people call a result, its colour, and which words of the registry it stands for.
_RESULTS = (
    ("completed", "good", ("completed", "partial")),
    ("postponed", "wait", ("put_off",)),
    ("failed", "bad", ("failed",)),
)
