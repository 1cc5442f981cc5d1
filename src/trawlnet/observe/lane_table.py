"""The table of lanes, from a crawl to its dashboards: written as columns, read as rows.

A crawl has thousands of lanes and little time to report them: it writes one list for each column,
and the reader builds the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from trawlnet.engine.gate import LaneColumns
from trawlnet.observe.lanes import condition_of, shown

MOST_LANES = 5000


class LaneRow(NamedTuple):
    """The name is safe to show, but not yet HTML."""

    lane: str
    condition: str
    rate: float | None  # Requests a second; None without a bound.
    in_flight: int
    parked_until: float | None
    why: str
    failures: int
    last_failure: str


@dataclass(frozen=True, slots=True)
class LaneTable:
    rows: Sequence[LaneRow] = ()
    left_out: int = 0  # Further lanes that are not listed.
    at: float = 0.0


class LaneWriter:
    """Caches the names, which are most of the table and seldom change."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._names_json = orjson.Fragment(b"[]")

    def table(self, columns: LaneColumns, total: int, now: float) -> bytes:
        if columns.lane != self._names:
            self._names = columns.lane
            self._names_json = orjson.Fragment(orjson.dumps([shown(name) for name in columns.lane]))
        packed: dict[str, Any] = columns._asdict() | {"lane": self._names_json}
        # Infinity becomes null: an unlimited rate, a blocked lane.
        return orjson.dumps(packed | {"at": now, "left_out": total - len(columns.lane)})


def read_table(raw: bytes) -> LaneTable:
    """Another process wrote it, perhaps of another version: an unreadable table becomes empty."""
    try:
        packed = orjson.loads(raw)
        columns = [packed[name] for name in LaneColumns._fields]
        at, left_out = float(packed["at"]), int(packed["left_out"])
        rows = [_row(*fields, now=at) for fields in zip(*columns, strict=True)]
    except (ValueError, TypeError, KeyError):
        return LaneTable()
    return LaneTable(rows, left_out, at)


def _row(
    lane: str,
    rate: float | None,
    in_flight: int,
    parked: float | None,
    failures: int,
    why: str,
    last_failure: str,
    *,
    now: float,
) -> LaneRow:
    until = math.inf if parked is None else parked
    held = now < until < math.inf
    return LaneRow(
        lane,
        condition_of(until, failures, now),
        None if rate is None else round(rate, 3),
        in_flight,
        round(until, 1) if held else None,
        why,
        failures,
        last_failure,
    )
