"""Raw reports in ClickHouse, one row per instance."""

from __future__ import annotations

from collections.abc import Mapping

from trawlnet.tables import native
from trawlnet.tables.ports import Tables
from trawlnet.tables.sql import statement

_LOOKUP = 2000  # Ids in one parameter.


async def insert_raw(tables: Tables, reports: Mapping[int, bytes]) -> int:
    """Add the reports whose instances have none yet; durable on return. Returns how many. The
    look before makes a repetition after a crash leave no second row, even for an instant."""
    ids, new = sorted(reports), list[int]()
    for at in range(0, len(ids), _LOOKUP):
        new += await _missing(tables, ids[at : at + _LOOKUP])
    if new:
        columns = [
            native.naturals("instance_id", new),
            native.Column("raw_json", "String", b"".join([native.text(reports[i]) for i in new])),
        ]
        await tables.insert(statement("insert_pgcr_raw"), native.block(columns, len(new)))
    return len(new)


async def _missing(tables: Tables, ids: list[int]) -> list[int]:
    rows = await tables.rows(statement("pgcr_raw_among"), {"instances": [str(i) for i in ids]})
    there = {instance for (instance,) in rows}
    return [one for one in ids if one not in there]
