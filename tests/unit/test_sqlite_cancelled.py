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


def test_who_gives_up_while_committing_has_committed(tmp_path: Path) -> None:
    async def whole() -> list[tuple[int]]:
        db = await open_sqlite(tmp_path / "x.db")
        await db.run(Statement("create", "CREATE TABLE t (a INTEGER)"))

        async def put() -> None:
            async with db.transaction() as transaction:
                await transaction.run(Statement("put", "INSERT INTO t VALUES (7)"))
                # The next thing that it waits for is the commit.
                asyncio.get_running_loop().call_soon(putting.cancel)

        putting = asyncio.create_task(put())
        await asyncio.wait([putting])
        assert putting.cancelled()
        try:
            return await db.rows(ROWS)
        finally:
            await db.close()

    assert asyncio.run(whole()) == [(7,)]


def test_a_transaction_without_a_statement_leaves_nothing_open(tmp_path: Path) -> None:
    async def whole() -> None:
        db = await open_sqlite(tmp_path / "x.db")
        async with db.transaction():
            pass
        with sqlite3.connect(tmp_path / "x.db", timeout=0.0) as other:
            other.execute("CREATE TABLE t (a INTEGER)")
        assert await db.rows(ROWS) == []
        await db.close()

    asyncio.run(whole())
