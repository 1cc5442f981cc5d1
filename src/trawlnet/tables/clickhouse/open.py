"""Open the tables of a workspace, with every table there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from trawlnet.tables.clickhouse.chdb import open_chdb
from trawlnet.tables.clickhouse.migrate import migrate
from trawlnet.tables.clickhouse.ports import Tables
from trawlnet.tables.clickhouse.server import ClickHouseServer, open_server


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
    """Nothing is made on a server, so that an account which may only read will do."""
    if isinstance(where, Path):
        async with opened(where) as tables:
            yield tables
        return
    reader = await open_server(where, to_read=True)
    try:
        yield reader
    finally:
        await reader.close()
