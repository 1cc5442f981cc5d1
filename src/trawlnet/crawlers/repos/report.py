"""A survey as a report: pictures for people, and the same figures for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from trawlnet.archive.survey import UNDATED, Survey
from trawlnet.archive.tally import CollectionTally
from trawlnet.crawlers.repos.following.figures.live_report import LiveStory, live_figures
from trawlnet.observe.reports.chart import ExtraColumn, bars, columns, lines
from trawlnet.observe.reports.numbers import number
from trawlnet.observe.reports.page import Report, Tile
from trawlnet.observe.reports.rows import by_power, minute, size, span, top

_RECORDS = ExtraColumn("records")
_REPOS = ExtraColumn("repositories")


def as_report(
    seen: Survey,
    place: str,
    dropped: Mapping[str, int],
    now: float,
    live: LiveStory | None = None,
) -> Report:
    tally = seen.tally
    tiles = [
        Tile("repositories", number(tally.repos), "good"),
        Tile("records", number(tally.records), "good"),
        Tile("collections", number(len(tally.collections))),
        Tile("PDSes", number(len(seen.repos_by_pds))),
        Tile("on disk", size(tally.bytes)),
        Tile("as JSON", size(seen.unpacked)),
        Tile("tombstoned", number(tally.tombstoned)),
        Tile("damaged places", number(len(tally.damage)), "bad" if tally.damage else ""),
    ]
    return Report(
        "Archive report",
        f"{place}: {tally.segments:,} segments, crawled {_span(seen)}; read {minute(now)} UTC.",
        tiles,
        [*_figures(seen, dropped), *(live_figures(live) if live else ())],
    )


def _figures(seen: Survey, dropped: Mapping[str, int]) -> list[Markup]:
    by_collection = seen.tally.collections
    months = _months(seen)
    return [
        bars(
            "Records by collection",
            top({name: row.records for name, row in by_collection.items()}),
            _RECORDS,
            first="collection",
        ),
        columns("Records by month of createdAt", months, _RECORDS, first="month",
                note=_undated(seen)),
        lines(
            "Growth: records so far",
            [month for month, _ in months],
            {"records": list(accumulate(count for _, count in months))},
            "records",
            first="month",
        ),
        bars("Records by PDS", top(seen.records_by_pds), _RECORDS, first="PDS"),
        bars("Repositories by PDS", top(seen.repos_by_pds), _REPOS, first="PDS"),
        bars("Languages of posts, as their authors set them", top(seen.languages),
             ExtraColumn("posts"), first="language"),
        columns("Repositories by size in the archive", by_power(seen.repos_by_size), _REPOS,
                first="at least"),
        columns("Repositories by number of records", _by_digits(seen.repos_by_records), _REPOS,
                first="records"),
        bars("Bytes by collection, compressed",
             top({name: row.compressed for name, row in by_collection.items()}),
             ExtraColumn("size", "bytes"), first="collection"),
        bars("Records left out while crawling, by reason", top(dropped), _RECORDS,
             first="reason", note=_ABOUT_DROPPED),
    ]  # fmt: skip


_ABOUT_DROPPED = (
    "Known where the archive lies in the workspace of its crawl; a record is left out when it"
    " breaks the rules of the protocol."
)


def as_json(
    seen: Survey, dropped: Mapping[str, int], live: LiveStory | None = None
) -> dict[str, Any]:
    """Everything counted, whole lists and all."""
    tally = seen.tally
    return {
        "segments": tally.segments,
        "bytes": tally.bytes,
        "bytes_as_json": seen.unpacked,
        "repos": tally.repos,
        "records": tally.records,
        "superseded": tally.superseded,
        "tombstoned": tally.tombstoned,
        "collections": {name: _collection(row) for name, row in sorted(tally.collections.items())},
        "pds": {
            name: {"repos": repos, "records": seen.records_by_pds[name]}
            for name, repos in seen.repos_by_pds.most_common()
        },
        "months": dict(sorted(seen.records_by_month.items())),
        "languages": dict(seen.languages.most_common()),
        "repos_by_size": {str(1 << power): n for power, n in sorted(seen.repos_by_size.items())},
        "dropped": dict(dropped),
        **({} if live is None else {"live": live.row}),
        "damage": [str(damage) for damage in tally.damage],
    }


def _collection(row: CollectionTally) -> dict[str, int]:
    return {
        "repos": row.repos,
        "records": row.records,
        "bytes": row.compressed,
        "bytes_as_json": row.unpacked,
    }


def _months(seen: Survey) -> list[tuple[str, float]]:
    """Every month from the first to the last, the empty ones too."""
    named = sorted(month for month in seen.records_by_month if month != UNDATED)
    if not named:
        return []
    first, last = (int(word[:4]) * 12 + int(word[5:]) - 1 for word in (named[0], named[-1]))
    every = (f"{n // 12:04}-{n % 12 + 1:02}" for n in range(first, last + 1))
    return [(month, seen.records_by_month[month]) for month in every]


def _undated(seen: Survey) -> str:
    undated = seen.records_by_month[UNDATED]
    note = "Authors set createdAt themselves; it may be any date."
    return f"{note} {undated:,} records have none." if undated else note


def _by_digits(counts: Mapping[int, int]) -> list[tuple[str, float]]:
    if not counts:
        return []
    names = ["none"] + [f"{10 ** (n - 1):,}–{10**n - 1:,}" for n in range(1, max(counts) + 1)]  # noqa: RUF001 - a range.
    return [(name, counts.get(n, 0)) for n, name in enumerate(names)]


def _span(seen: Survey) -> str:
    return span(seen.first_crawled_us / 1e6, seen.last_crawled_us / 1e6)


__all__: Sequence[str] = ("as_json", "as_report")
