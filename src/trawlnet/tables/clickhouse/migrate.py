"""Bring the tables up to the version that this program knows."""

from __future__ import annotations

from trawlnet.tables.clickhouse.ports import Tables
from trawlnet.tables.clickhouse.queries import statement
from trawlnet.tables.errors import TablesError

# Each step may be repeated, since a crash can come between it and the note that it was made.
STEPS: tuple[tuple[str, ...], ...] = (
    (
        "create_plc_operations",
        "create_plc_did_state",
        "create_mirror_cursors",
        "create_repo_records",
        "create_replayed_repos",
        "create_replayed_segments",
    ),
    ("create_pgcr_raw",),
    ("create_item_raw",),
)


async def migrate(tables: Tables) -> None:
    await tables.run(statement("create_schema_version"))
    ((version,),) = await tables.rows(statement("schema_version"))
    if version > len(STEPS):
        raise TablesError(
            f"the tables have schema version {version}, this program knows {len(STEPS)}",
            "use the newer trawlnet that made them",
        )
    for number, step in enumerate(STEPS[version:], start=version + 1):
        for name in step:
            await tables.run(statement(name))
        await tables.run(statement("note_schema_version"), {"version": number})
