"""The report of the registry: charts for people, and the same figures for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from trawlnet.observe.history import Sample
from trawlnet.observe.reports.chart import ExtraColumn, bars, columns, lines
from trawlnet.observe.reports.numbers import number
from trawlnet.observe.reports.page import Report, Tile
from trawlnet.observe.reports.rows import grown, minute, over_time, top
from trawlnet.tables.registry.report import RegistryFigures
from trawlnet.tables.registry.rules import PdsRow

_HOSTS = ExtraColumn("PDSes")
_RECORDS = ExtraColumn("records")
_SCANS = ExtraColumn("scans")
_RESULTS = ("completed", "partial", "put_off", "failed")


def as_report(
    figures: RegistryFigures, history: Sequence[Sample], place: str, now: float
) -> Report:
    stats = figures.stats
    tiles = [
        Tile("PDSes", number(stats.total), "good"),
        Tile("active", number(stats.active), "good"),
        Tile("due now", number(stats.due), "wait" if stats.due else ""),
        Tile("unreachable", number(stats.unreachable), "bad" if stats.unreachable else ""),
        Tile("with wanted records", number(stats.with_chive_records)),
        Tile("records", number(sum(figures.records.values()))),
        Tile("indexed", number(stats.indexed_records)),
        Tile("accounts, as relays report", number(stats.accounts)),
    ]
    lead = f"{place}: the registry as it stood at {minute(now)} UTC."
    return Report("PDS registry report", lead, tiles, _figures(figures, history))


def _figures(figures: RegistryFigures, history: Sequence[Sample]) -> list[Markup]:
    stats = figures.stats
    scans = stats.scans
    by_result = {
        result: [hour.results.get(result, 0) for hour in scans]
        for result in _RESULTS
        if any(hour.results.get(result) for hour in scans)
    }
    word, ended = over_time(grown(history, "scans"))
    return [
        bars("PDSes by status", _rows(stats.by_status), _HOSTS, first="status"),
        bars("PDSes by source", _rows(stats.by_source), _HOSTS, first="source"),
        bars("Records by collection", top(figures.records), _RECORDS, first="collection"),
        bars("PDSes with most records", _largest(figures.largest), _RECORDS, first="PDS"),
        lines("Scans of the last two days", [minute(hour.hour) for hour in scans], by_result,
              "scans", first="hour"),
        columns(f"Scans by the {word}, as far as the history goes", ended, _SCANS, first=word),
        bars("PDSes whose last scan failed, by reason", _rows(stats.failures), _HOSTS,
             first="reason"),
        bars("PDSes given up on, by reason", _rows(stats.given_up), _HOSTS, first="reason"),
        bars("Scans by result", _rows(stats.attempts), _SCANS, first="result"),
    ]  # fmt: skip


def as_json(figures: RegistryFigures) -> dict[str, Any]:
    stats = figures.stats
    return {
        "total": stats.total,
        "due": stats.due,
        "accounts": stats.accounts,
        "indexed_records": stats.indexed_records,
        "by_status": _plain(stats.by_status),
        "by_source": _plain(stats.by_source),
        "failures": _plain(stats.failures),
        "given_up": _plain(stats.given_up),
        "attempts": _plain(stats.attempts),
        "records": dict(figures.records),
        "largest": [_row(row) for row in figures.largest],
        "scans": [{"hour": minute(hour.hour), **hour.results} for hour in stats.scans],
    }


def _row(row: PdsRow) -> dict[str, Any]:
    return {
        "pds_url": row.pds_url,
        "status": str(row.status),
        "records": row.chive_record_count,
        "accounts": row.account_count,
    }


def _largest(rows: Sequence[PdsRow]) -> list[tuple[str, float]]:
    return [(row.pds_url, row.chive_record_count) for row in rows if row.chive_record_count]


def _rows(counts: Mapping[Any, int]) -> list[tuple[str, float]]:
    return top(_plain(counts))


def _plain(counts: Mapping[Any, int]) -> dict[str, int]:
    return {str(word): count for word, count in counts.items() if count}
