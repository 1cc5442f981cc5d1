"""A caller of SQLite who gives up leaves the connection as the next one needs it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from trawlnet.tables.relational.database import Statement
from trawlnet.tables.relational.sqlite import open_sqlite

ROWS = Statement("rows", "SELECT a FROM t")


def test_who_gives_up_while_beginning_does_not_leave_a_transaction_open(tmp_path: Path) -> None:
    async def whole() -> list[tuple[int]]:
        db = await open_sqlite(tmp_path / "x.db")
        await db.run(Statement("create", "CREATE TABLE t (a INTEGER)"))
        with sqlite3.connect(tmp_path / "x.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(db.rows(ROWS))
            await asyncio.sleep(0.05)  # It waits for the lock now, in its thread.
            waiting.cancel()
            other.execute("INSERT INTO t VALUES (7)")
            other.execute("COMMIT")
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        try:
            return await db.rows(ROWS)
        finally:
            await db.close()

    assert asyncio.run(whole()) == [(7,)]
