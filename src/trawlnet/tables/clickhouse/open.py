"""Open the tables of a workspace, with every table there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from trawlnet.tables.clickhouse.chdb import open_chdb
from trawlnet.tables.clickhouse.ports import Tables, statement
from trawlnet.tables.clickhouse.server import ClickHouseServer, open_server
from trawlnet.tables.clickhouse.snapshot import NoSnapshot, snapshot_of
from trawlnet.tables.errors import TablesError


@asynccontextmanager
async def opened(where: Path | ClickHouseServer) -> AsyncIterator[Tables]:
    """A folder opens the embedded engine, a Server the one over there."""
    tables: Tables = await (
        open_server(where) if isinstance(where, ClickHouseServer) else open_chdb(where)
    )
    try:
        await migrate(tables)
        yield tables
    finally:
        await tables.close()


@asynccontextmanager
async def opened_to_read(where: Path | ClickHouseServer) -> AsyncIterator[Tables]:
    """Nothing is made on a server, so that an account which may only read will do. Of embedded
    tables a snapshot is read: another process may have them open, and goes on."""
    if isinstance(where, Path):
        async with AsyncExitStack() as stack:
            yield await stack.enter_async_context(opened(await _to_read(where, stack)))
        return
    reader = await open_server(where, to_read=True)
    try:
        ((is_known,),) = await reader.rows(statement("has_schema_version"))
        if is_known:
            await _schema_version(reader)
        yield reader
    finally:
        await reader.close()


async def _to_read(folder: Path, stack: AsyncExitStack) -> Path:
    taken = snapshot_of(folder)
    try:
        place = await asyncio.to_thread(taken.__enter__)
    except NoSnapshot:
        return folder
    stack.callback(taken.__exit__, None, None, None)
    return place


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
    (
        # Rows with the operation delete hide those before them, which the engine must be told when
        # a table is made: so a new table takes the parts of the old one, and its name.
        "add_is_deleted",
        "drop_repo_records_next",
        "create_repo_records_next",
        "take_repo_records",
        "exchange_repo_records",
        "drop_repo_records_next",
    ),
)


async def migrate(tables: Tables) -> None:
    await tables.run(statement("create_schema_version"))
    version = await _schema_version(tables)
    for number, step in enumerate(STEPS[version:], start=version + 1):
        for name in step:
            await tables.run(statement(name))
        await tables.run(statement("note_schema_version"), {"version": number})


async def _schema_version(tables: Tables) -> int:
    """Raises TablesError for that of a newer version."""
    ((version,),) = await tables.rows(statement("schema_version"))
    if version > len(STEPS):
        raise TablesError(
            f"the tables have schema version {version}, this program knows {len(STEPS)}",
            "use the newer trawlnet that made them",
        )
    return int(version)
