"""What an API said of each id, as it said it, in ClickHouse: one row per id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trawlnet.tables.clickhouse import native
from trawlnet.tables.clickhouse.ports import Tables, statement

_LOOKUP = 2000  # Ids in one parameter.


@dataclass(frozen=True, slots=True)
class RawTable:
    name: str
    key: str  # Its column with the id.


REPORTS = RawTable("pgcr_raw", "instance_id")
ITEMS = RawTable("item_raw", "id")


async def insert_raw(tables: Tables, table: RawTable, bodies: Mapping[int, bytes]) -> int:
    """Add the bodies whose ids have none yet; durable on return. Returns how many. The look before
    makes a repetition after a crash leave no second row, even for an instant."""
    ids, new = sorted(bodies), list[int]()
    for at in range(0, len(ids), _LOOKUP):
        new += await _missing(tables, table, ids[at : at + _LOOKUP])
    if new:
        columns = [
            native.naturals(table.key, new),
            native.NativeColumn(
                "raw_json", "String", b"".join([native.text(bodies[i]) for i in new])
            ),
        ]
        await tables.insert(statement(f"insert_{table.name}"), native.block(columns, len(new)))
    return len(new)


async def _missing(tables: Tables, table: RawTable, ids: list[int]) -> list[int]:
    rows = await tables.rows(statement(f"{table.name}_among"), {"ids": [str(i) for i in ids]})
    there = {one for (one,) in rows}
    return [one for one in ids if one not in there]
