"""Brings the table of records up to the end of the log of events, and dies at a statement.

Run as `python -m tests.crash.live_tables_role FOLDER NUMBER`: SIGKILL comes right behind that
statement; 0 for never.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trawlnet.crawlers.repos.events.event_log import EventReader
from trawlnet.crawlers.repos.replay import live_tables
from trawlnet.crawlers.repos.replay.live_tables import LiveTables
from trawlnet.net.clock import SystemClock
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import NO_PARAMETERS, Parameter, Query, Tables

EVENTS_AT_ONCE = 40


class Fatal:
    """Tables whose user is killed behind the statement of a number."""

    def __init__(self, tables: Tables, number: int) -> None:
        self._tables = tables
        self._left = number

    async def run(self, query: Query, parameters: Mapping[str, Parameter] = NO_PARAMETERS) -> None:
        await self._tables.run(query, parameters)
        self._count()

    async def insert(self, query: Query, block: bytes) -> None:
        await self._tables.insert(query, block)
        self._count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


async def catch_up(folder: Path, number: int) -> None:
    live_tables._EVENTS = EVENTS_AT_ONCE
    reader = EventReader(folder)
    async with opened(folder / "tables") as tables:
        live = LiveTables(Fatal(tables, number), reader, folder / "archive", SystemClock())
        at = await live.begin()
        while (after := await live.go_on(at)) != at:
            at = after


if __name__ == "__main__":
    asyncio.run(catch_up(Path(sys.argv[1]), int(sys.argv[2])))
