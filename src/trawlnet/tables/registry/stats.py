"""The registry in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.rows import reason_of, source_of, status_of
from trawlnet.tables.registry.rules import PdsSource, PdsStatus
from trawlnet.tables.relational.database import from_db


@dataclass(frozen=True, slots=True)
class HourlyScans:
    """The scans that ended in one hour."""

    hour: float  # Its beginning, in Unix seconds.
    results: Mapping[str, int]  # completed, partial, put_off, failed.


@dataclass(frozen=True, slots=True)
class Stats:
    total: int
    due: int
    with_chive_records: int
    chive_records: int
    indexed_records: int
    accounts: int  # As relays report.
    by_status: Mapping[PdsStatus, int]  # Every status, also those that nobody has.
    by_source: Mapping[PdsSource, int]
    failures: Mapping[Reason, int]  # Rows whose last try failed.
    given_up: Mapping[Reason, int]  # Of these, the unreachable ones.
    scans: Sequence[HourlyScans]  # Of the last two days, oldest first.
    attempts: Mapping[Reason, int]  # Every scan there was, by what it came to.

    @property
    def active(self) -> int:
        return self.by_status[PdsStatus.ACTIVE]

    @property
    def unreachable(self) -> int:
        return self.by_status[PdsStatus.UNREACHABLE]


Rows = Sequence[tuple[Any, ...]]


def stats_of(rows: Rows, failures: Rows, attempts: Rows, hours: Rows) -> Stats:
    by_status: Counter[PdsStatus] = Counter(dict.fromkeys(PdsStatus, 0))
    by_source: Counter[PdsSource] = Counter(dict.fromkeys(PdsSource, 0))
    sums = [0] * 6
    for status, source, *figures in rows:
        by_status[status_of(status)] += int(figures[0])
        by_source[source_of(source)] += int(figures[0])
        sums = [total + int(figure or 0) for total, figure in zip(sums, figures, strict=True)]
    total, with_records, due, records, indexed, accounts = sums
    return Stats(
        total=total,
        due=due,
        with_chive_records=with_records,
        chive_records=records,
        indexed_records=indexed,
        accounts=accounts,
        by_status=by_status,
        by_source=by_source,
        failures=_by_reason(failures),
        given_up=_by_reason([row for row in failures if row[1] == PdsStatus.UNREACHABLE]),
        scans=_by_hour(hours),
        attempts=_by_reason(attempts),
    )


def _by_reason(rows: Rows) -> Mapping[Reason, int]:
    counts: Counter[Reason] = Counter()
    for reason, _, count in rows:
        counts[reason_of(reason)] += int(count)
    return counts


def _by_hour(rows: Rows) -> list[HourlyScans]:
    hours: dict[float, Counter[str]] = {}
    for instant, result, _, scans in rows:
        hours.setdefault(from_db(instant) or 0.0, Counter())[result] += int(scans)
    return [HourlyScans(hour, results) for hour, results in hours.items()]
