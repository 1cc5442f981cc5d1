"""The page for people: figures, a search and a form, all of it plain HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from trawlnet.crawlers.pds.web.chart import Hour, bars_over_time, share_bar
from trawlnet.crawlers.pds.web.markup import Markup, fill, joined
from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry_browse import Browsed, Sort, Wish
from trawlnet.tables.registry_rules import PdsRow, Source, Status
from trawlnet.tables.registry_stats import HourlyScans, Stats

_SHOWN_ERROR = 120  # Characters.
_LONGEST_ERROR = 300
_UNKNOWN = "\N{EN DASH}"
_HOUR = 3600  # Seconds.
_HOURS = 48


@dataclass(frozen=True, slots=True)
class Figures:
    stats: Stats
    largest: Sequence[PdsRow]
    now: float


_ANYTHING = Wish()


@dataclass(frozen=True, slots=True)
class Search:
    """What was looked for, and what was found; without a question nothing was looked for."""

    wish: Wish = _ANYTHING
    found: Browsed | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """What the form has to say about the last attempt."""

    text: str
    good: bool
    value: str = ""  # What was typed, to be mended.


_AT = Markup(' aria-current="page"')
_NOT = Markup("")


def overview(figures: Figures, search: Search, notice: Notice | None) -> str:
    stats = figures.stats
    content = fill(
        "overview",
        total=stats.total,
        servers="server" if stats.total == 1 else "servers",
        tiles=joined(_tile(status, stats.by_status.get(status, 0)) for status in Status),
        hours=_scans(hours_of(stats.scans, figures.now)),
        query=search.wish.contains,
        status_options=_options(_named(Status, _STATUS_LABELS), search.wish.status),
        source_options=_options(_named(Source, _SOURCES), search.wish.source),
        sort_options=_options(_SORTS, search.wish.sort),
        results=_results(figures, search),
        register=_form(notice),
        sources=_shares("PDSes by source", "Source", _sources(stats.by_source)),
        failures=_failures(stats.failures),
    )
    query = search.wish.contains
    title = f"{query}: PDS registry" if query else "PDS registry"
    return page(title, content, at_home=_AT)


def page(
    title: str,
    content: Markup,
    *,
    at_home: Markup = _NOT,
    at_docs: Markup = _NOT,
    root: str = "",
) -> str:
    """`root` leads from where the page is to where the site begins: links are relative, so that
    the site can be a part of another one."""
    return fill("page", title=title, content=content, at_home=at_home, at_docs=at_docs, root=root)


def _tile(status: Status, count: int) -> Markup:
    label, gloss = _STATUSES[status]
    return fill("tile", kind=status, status=status, label=label, gloss=gloss, count=count)


def _named(words: Iterable[StrEnum], labels: Mapping[Any, str]) -> Mapping[str, str]:
    return {"": "Any", **{str(word): labels[word] for word in words if word in labels}}


def _options(words: Mapping[str, str], chosen: StrEnum | None) -> Markup:
    return joined(
        fill(
            "option",
            value=value,
            label=label,
            chosen=Markup(" selected") if value == (chosen or "") else _NOT,
        )
        for value, label in words.items()
    )


def hours_of(scans: Sequence[HourlyScans], now: float) -> list[Hour]:
    """The hours of two days up to this one, also those without a scan."""
    counted = {int(one.hour): one.results for one in scans}
    this = int(now) // _HOUR * _HOUR
    hours = []
    for start in range(this - (_HOURS - 1) * _HOUR, this + 1, _HOUR):
        results = counted.get(start, {})
        ended = results.get("completed", 0) + results.get("partial", 0)
        name = f"{datetime.fromtimestamp(start, UTC):%m-%d %H:00}"
        hours.append(Hour(name, ended, results.get("put_off", 0), results.get("failed", 0)))
    return hours


def _scans(hours: Sequence[Hour]) -> Markup:
    if not any(hour.total for hour in hours):
        return fill("empty", text="Nothing was scanned in this time.")
    rows = joined(
        fill(
            "hour_row",
            name=hour.name,
            ended=hour.ended,
            put_off=hour.put_off,
            failed=hour.failed,
        )
        for hour in reversed(hours)
    )
    return fill("hours", picture=bars_over_time(hours), rows=rows)


def _sources(counts: Mapping[Source, int]) -> Mapping[str, int]:
    known = [source for source in Source if source is not Source.UNKNOWN or counts.get(source)]
    return {_SOURCES[source]: counts.get(source, 0) for source in known}


def _failures(counts: Mapping[Reason, int]) -> Markup:
    if not any(counts.values()):
        return fill("empty", text="None.")
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    named = {reason.replace("_", " "): count for reason, count in ranked if count}
    return _shares("PDSes by why their last scan failed", "Reason", named)


def _shares(caption: str, what: str, counts: Mapping[str, int]) -> Markup:
    most = max(counts.values(), default=0)
    rows = joined(
        fill("share_row", label=label, bar=share_bar(count, most), count=count)
        for label, count in counts.items()
    )
    return fill("shares", caption=caption, what=what, rows=rows)


def _results(figures: Figures, search: Search) -> Markup:
    found, wish = search.found, search.wish
    if found is None:
        if not figures.largest:
            return fill("empty", text="The registry is empty. Register the first one.")
        return _table("The largest that are known.", figures.largest, _NOT)
    if not found.rows:
        return fill("empty", text="Nothing fits. Try a shorter part of the name.")
    first = (wish.page - 1) * wish.size + 1
    count = (
        f"{found.total:,} found, with {found.records:,} records and {found.accounts:,} accounts, "
        f"as relays tell; here are {first:,} to {first + len(found.rows) - 1:,}."
    )
    return _table(count, found.rows, _pages(wish, found))


def _pages(wish: Wish, found: Browsed) -> Markup:
    last = -(-found.total // wish.size)
    links = []
    if wish.page > 1:
        links.append(fill("page_link", href=_href(wish, wish.page - 1), rel="prev", text="Back"))
    if wish.page < last:
        links.append(fill("page_link", href=_href(wish, wish.page + 1), rel="next", text="Next"))
    return fill("pages", here=wish.page, last=last, links=joined(links))


def _href(wish: Wish, page: int) -> str:
    asked = {"q": wish.contains, "status": wish.status, "source": wish.source, "sort": wish.sort}
    kept = {name: str(value) for name, value in asked.items() if value}
    return f"./?{urlencode(kept | {'page': str(page)})}#find"


def _table(told: str, rows: Sequence[PdsRow], more: Markup) -> Markup:
    return fill("results", told=told, label="PDSes", rows=joined(map(_row, rows)), more=more)


def _row(row: PdsRow) -> Markup:
    error = row.last_error
    return fill(
        "host_row",
        href=f"pds?{urlencode({'url': row.pds_url})}",
        host=row.pds_url.removeprefix("https://"),
        error=fill("host_error", text=error[:_SHOWN_ERROR]) if error else _NOT,
        status=row.status,
        status_label=_STATUSES[row.status][0],
        accounts=_UNKNOWN if row.account_count is None else row.account_count,
        records=row.chive_record_count if row.last_scan_at else _UNKNOWN,
        scanned=_when(row.last_scan_at),
    )


def single(row: PdsRow, now: float) -> str:
    """The page of one PDS: every column that means something to people."""
    due = "now" if (row.next_scan_at or 0.0) <= now else _when(row.next_scan_at)
    facts = {
        "Status": f"{_STATUSES[row.status][0]}: {_STATUSES[row.status][1]}",
        "Heard of": f"{_when(row.discovered_at)} ({_SOURCES[row.discovery_source]})",
        "Read by a relay": "yes" if row.is_relay_connected else "not that we know",
        "Accounts": _UNKNOWN if row.account_count is None else f"{row.account_count:,}",
        "Records": f"{row.chive_record_count:,}" if row.last_scan_at else _UNKNOWN,
        "Indexed": f"{row.indexed_record_count:,}" if row.last_scan_at else _UNKNOWN,
        "Last complete scan": _when(row.last_scan_at),
        "Last try": f"{_when(row.last_try_at)}{_how(row)}",
        "Failures in a row": f"{row.consecutive_failures:,}",
        "Last trouble": (row.last_error or "none")[:_LONGEST_ERROR],
        "Next scan": due,
    }
    rows = joined(fill("fact", label=label, value=value) for label, value in facts.items())
    host = row.pds_url.removeprefix("https://")
    json = f"api/pds?{urlencode({'q': host, 'limit': 1})}"
    content = fill("single", host=host, url=row.pds_url, rows=rows, json=json)
    return page(f"{host}: PDS registry", content)


def _how(row: PdsRow) -> str:
    return f", {row.last_reason.replace('_', ' ')}" if row.last_reason else ""


def _when(instant: float | None) -> str:
    return "never" if instant is None else f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%d %H:%M}"


def _form(notice: Notice | None) -> Markup:
    if notice is None:
        return fill("register", told=_NOT, value="", invalid=_NOT)
    kind, role = ("good", "status") if notice.good else ("bad", "alert")
    told = fill("told", kind=kind, role=role, text=notice.text)
    invalid = _NOT if notice.good else Markup(' aria-invalid="true" aria-describedby="told"')
    return fill("register", told=told, value=notice.value, invalid=invalid)


_STATUSES = {
    Status.PENDING: ("Pending", "waiting for a first scan"),
    Status.ACTIVE: ("Active", "with records, seen daily"),
    Status.SCANNING: ("Scanning", "being asked right now"),
    Status.UNREACHABLE: ("Unreachable", "failed five times in a row"),
    Status.NO_CHIVE_RECORDS: ("No records", "looked at every 7 days"),
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
    Source.PLC: "PLC directory",
    Source.RELAY: "Relays",
    Source.USER: "Registered by people",
    Source.DID: "Mentioned by a DID",
    Source.UNKNOWN: "Otherwise",
}
