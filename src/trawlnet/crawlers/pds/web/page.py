"""The page for people: figures, a search and a form, all of it plain HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from trawlnet.crawlers.pds.web.chart import Hour, bars_over_time, share_bar
from trawlnet.crawlers.pds.web.markup import Markup, fill, joined
from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry_rules import PdsRow, Source, Status
from trawlnet.tables.registry_stats import HourlyScans, Stats

_SHOWN_ERROR = 120  # Characters.
_UNKNOWN = "\N{EN DASH}"
_HOUR = 3600  # Seconds.
_HOURS = 48


@dataclass(frozen=True, slots=True)
class Figures:
    stats: Stats
    largest: Sequence[PdsRow]
    now: float


@dataclass(frozen=True, slots=True)
class Search:
    """What was looked for, and what was found; without a question nothing was looked for."""

    query: str = ""
    status: Status | None = None
    source: Source | None = None
    rows: Sequence[PdsRow] | None = None
    more: str = ""  # Where the next page begins.


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
        query=search.query,
        status_options=_options(search.status),
        results=_results(figures, search),
        register=_form(notice),
        sources=_shares("PDSes by source", "Source", _sources(stats.by_source)),
        failures=_failures(stats.failures),
    )
    title = f"{search.query}: PDS registry" if search.query else "PDS registry"
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


def _options(chosen: Status | None) -> Markup:
    words = [("", "Any"), *((str(status), _STATUSES[status][0]) for status in Status)]
    return joined(
        fill(
            "option",
            value=value,
            label=label,
            chosen=Markup(" selected") if value == (chosen or "") else _NOT,
        )
        for value, label in words
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
    if search.rows is None:
        if not figures.largest:
            return fill("empty", text="The registry is empty. Register the first one.")
        return _table("The largest that are known.", figures.largest, _NOT)
    if not search.rows:
        return fill("empty", text="Nothing fits. Try a shorter part of the name.")
    asked = {"q": search.query, "status": search.status, "source": search.source}
    kept = {name: value for name, value in asked.items() if value}
    href = f"./?{urlencode(kept | {'after': search.more})}#find"
    more = fill("more", href=href) if search.more else _NOT
    count = f"{len(search.rows)}{' of more' if search.more else ''} found."
    return _table(count, search.rows, more)


def _table(told: str, rows: Sequence[PdsRow], more: Markup) -> Markup:
    return fill("results", told=told, label="PDSes", rows=joined(map(_row, rows)), more=more)


def _row(row: PdsRow) -> Markup:
    error = row.last_error if row.consecutive_failures else None
    return fill(
        "host_row",
        host=row.pds_url.removeprefix("https://"),
        error=fill("host_error", text=error[:_SHOWN_ERROR]) if error else _NOT,
        status=row.status,
        status_label=_STATUSES[row.status][0],
        accounts=_UNKNOWN if row.account_count is None else row.account_count,
        records=row.chive_record_count if row.last_scan_at else _UNKNOWN,
        scanned=_when(row.last_scan_at),
    )


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
_SOURCES = {
    Source.PLC: "PLC directory",
    Source.RELAY: "Relays",
    Source.USER: "Registered by people",
    Source.DID: "Mentioned by a DID",
    Source.UNKNOWN: "Otherwise",
}
