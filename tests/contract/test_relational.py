"""One contract of relational databases, on SQLite and on a PostgreSQL server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.servers import free_port
from trawlnet.tables.errors import TablesError, TablesRefused, TablesUnreachable
from trawlnet.tables.relational.database import Relational, Statement, from_db, to_db
from trawlnet.tables.relational.open import open_relational

CREATE = Statement("create", "CREATE TABLE IF NOT EXISTS t (k TEXT PRIMARY KEY, n BIGINT, at TEXT)")
DROP = Statement("drop", "DROP TABLE IF EXISTS t")
ADD = Statement("add", "INSERT INTO t (k, n) VALUES (:k, :n) ON CONFLICT (k) DO NOTHING")
ALL = Statement("all", "SELECT k, n FROM t ORDER BY k")
LIKE = Statement("like", "SELECT k FROM t WHERE k LIKE '50%' AND n >= :n")


@asynccontextmanager
async def fresh(where: Path | str) -> AsyncIterator[Relational]:
    db = await open_relational(where)
    try:
        await db.run(DROP)
        await db.run(CREATE)
        yield db
    finally:
        await db.close()


def on(where: Path | str, body: Callable[[Relational], Awaitable[None]]) -> None:
    async def run() -> None:
        async with fresh(where) as db:
            await body(db)

    asyncio.run(run())


def test_what_was_added_is_there_and_a_conflict_changes_nothing(where: Path | str) -> None:
    async def body(db: Relational) -> None:
        assert await db.run(ADD, {"k": "a", "n": 2**62}) == 1
        assert await db.run(ADD, {"k": "a", "n": 1}) == 0
        assert await db.rows(ALL) == [("a", 2**62)]

    on(where, body)


def test_an_exception_takes_the_whole_transaction_back(where: Path | str) -> None:
    async def body(db: Relational) -> None:
        with pytest.raises(RuntimeError):
            async with db.transaction() as transaction:
                await transaction.run_many(ADD, [{"k": str(n), "n": n} for n in range(9)])
                raise RuntimeError
        assert await db.rows(ALL) == []
        async with db.transaction() as transaction:
            await transaction.run(ADD, {"k": "b", "n": 1})
        assert await db.rows(ALL) == [("b", 1)]

    on(where, body)


def test_a_cancelled_transaction_leaves_a_usable_database(where: Path | str) -> None:
    async def body(db: Relational) -> None:
        begun = asyncio.Event()

        async def hang() -> None:
            async with db.transaction() as transaction:
                await transaction.run(ADD, {"k": "c", "n": 1})
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hang())
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await db.rows(ALL) == []
        assert await db.run(ADD, {"k": "d", "n": 1}) == 1

    on(where, body)


def test_a_percent_sign_in_a_statement_is_itself(where: Path | str) -> None:
    async def body(db: Relational) -> None:
        await db.run(ADD, {"k": "50 %", "n": 1})
        await db.run(ADD, {"k": "5", "n": 1})
        assert await db.rows(LIKE, {"n": 1}) == [("50 %",)]

    on(where, body)


def test_a_wrong_statement_is_an_error_with_words(where: Path | str) -> None:
    async def body(db: Relational) -> None:
        with pytest.raises(TablesError, match="nowhere"):
            await db.rows(Statement("wrong", "SELECT * FROM nowhere"))
        assert await db.rows(ALL) == []

    on(where, body)


def test_many_transactions_at_once_lose_nothing(where: Path | str) -> None:
    async def body(db: Relational) -> None:
        await asyncio.gather(*(db.run(ADD, {"k": f"{n:03}", "n": n}) for n in range(60)))
        assert [n for _, n in await db.rows(ALL)] == list(range(60))

    on(where, body)


def test_what_is_written_outlives_the_connection(where: Path | str) -> None:
    async def body() -> None:
        async with fresh(where) as db:
            await db.run(ADD, {"k": "e", "n": 1})
        again = await open_relational(where)
        try:
            assert await again.rows(ALL) == [("e", 1)]
        finally:
            await again.close()

    asyncio.run(body())


def test_instants_survive_to_the_microsecond(where: Path | str) -> None:
    kind = "TEXT" if isinstance(where, Path) else "TIMESTAMPTZ"

    async def body(db: Relational) -> None:
        await db.run(Statement("drop", "DROP TABLE IF EXISTS moments"))
        await db.run(Statement("create", f"CREATE TABLE moments (at {kind})"))
        await db.run(
            Statement("add", "INSERT INTO moments VALUES (:at)"),
            {"at": to_db(db.dialect, 1_700_000_000.125)},
        )
        ((at,),) = await db.rows(Statement("read", "SELECT at FROM moments"))
        assert from_db(at) == 1_700_000_000.125
        assert from_db(None) is None and to_db(db.dialect, None) is None

    on(where, body)


@pytest.mark.parametrize("row", [{"k": "lone \ud800", "n": 1}, {"k": "wide", "n": 2**70}])
def test_a_row_that_cannot_be_stored_is_told_apart_from_trouble(
    where: Path | str, row: dict[str, str | int]
) -> None:
    async def body(db: Relational) -> None:
        with pytest.raises(TablesRefused):
            await db.run(ADD, row)
        with pytest.raises(TablesRefused):
            async with db.transaction() as transaction:
                await transaction.run_many(ADD, [{"k": "fine", "n": 1}, row])
        assert await db.rows(ALL) == []

    on(where, body)


def test_a_server_that_is_away_is_said_to_be_unreachable() -> None:
    url = f"postgresql://someone:secret@127.0.0.1:{free_port()}/x"
    with pytest.raises(TablesUnreachable) as caught:
        asyncio.run(open_relational(url))
    assert "secret" not in caught.value.message and "127.0.0.1" in caught.value.message


def test_another_scheme_is_refused_with_what_to_type() -> None:
    with pytest.raises(TablesError) as caught:
        asyncio.run(open_relational("mysql://x/y"))
    assert "postgresql://" in caught.value.hint


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("not a database at all, but long enough to be looked at" * 9)
    with pytest.raises(TablesError):
        asyncio.run(open_relational(tmp_path / "x.db"))


def test_a_statement_sees_what_was_given_many_values_before_it(where: Path | str) -> None:
    async def body(db: Relational) -> None:
        async with db.transaction() as transaction:
            for first in (0, 700):  # More than wait for a statement.
                rows = [{"k": f"{n:04}", "n": n} for n in range(first, first + 700)]
                await transaction.run_many(ADD, rows)
                assert len(await transaction.rows(ALL)) == first + 700
            await transaction.run_many(ADD, [{"k": "last", "n": 1}])
        assert len(await db.rows(ALL)) == 1401

    on(where, body)
