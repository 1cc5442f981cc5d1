"""Where the ClickHouse tables of a crawler are: in its workspace, unless a server is named."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trawlnet.tables.clickhouse.server import ClickHouseServer

TABLES = "tables"  # Folder of the workspace.


class WithTables(Protocol):
    """A config that can name a server."""

    @property
    def clickhouse_address(self) -> str: ...

    @property
    def clickhouse_username(self) -> str: ...

    @property
    def clickhouse_password(self) -> str: ...

    @property
    def clickhouse_database(self) -> str: ...


def tables_place(config: WithTables, workspace: Path) -> Path | ClickHouseServer:
    if not config.clickhouse_address:
        return workspace / TABLES
    return ClickHouseServer(
        config.clickhouse_address,
        config.clickhouse_username,
        config.clickhouse_password,
        config.clickhouse_database,
    )
