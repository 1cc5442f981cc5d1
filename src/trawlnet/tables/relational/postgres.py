"""PostgreSQL over the network, through a few pooled connections."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trawlnet.tables.errors import (
    TablesError,
    TablesFull,
    TablesMissing,
    TablesRefused,
    TablesUnreachable,
    said,
)
from trawlnet.tables.relational.database import NO_VALUES, Dialect, Statement, Transaction, Values

try:
    import psycopg
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
except ImportError as missing:
    raise TablesMissing(
        "PostgreSQL needs the package psycopg", "pip install 'trawlnet[postgres]'"
    ) from missing

if TYPE_CHECKING:
    Pool = AsyncConnectionPool[psycopg.AsyncConnection[tuple[Any, ...]]]

_MOST_CONNECTIONS = 4
_WAIT_SECONDS = 10.0


async def open_postgres(url: str) -> Postgres:
    pool: Pool = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=_MOST_CONNECTIONS,
        timeout=_WAIT_SECONDS,
        # A second try after a failed one comes soon: the commands give up after a few seconds.
        reconnect_timeout=_WAIT_SECONDS,
        open=False,
        check=AsyncConnectionPool.check_connection,
        kwargs={"connect_timeout": int(_WAIT_SECONDS), "application_name": "trawlnet"},
    )
    place = _place(url)
    try:
        with _translated(place):
            async with await psycopg.AsyncConnection.connect(
                url, connect_timeout=int(_WAIT_SECONDS)
            ) as connection:  # The pool would hide why it cannot.
                await connection.execute("SELECT 1")
            await pool.open(wait=True, timeout=_WAIT_SECONDS)
    except BaseException:
        await pool.close()
        raise
    return Postgres(pool, place)


def _place(url: str) -> str:
    """Where it is, without the password."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"postgresql://{parts.hostname or ''}{port}{parts.path}"


class Postgres:
    dialect: Dialect = "postgresql"

    def __init__(self, pool: Pool, place: str) -> None:
        self._pool = pool
        self._place = place

    async def rows(self, statement: Statement, values: Values = NO_VALUES) -> list[tuple[Any, ...]]:
        async with self.transaction() as transaction:
            return await transaction.rows(statement, values)

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        async with self.transaction() as transaction:
            return await transaction.run(statement, values)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        with _translated(self._place):
            async with self._pool.connection() as connection, connection.transaction():
                yield _PostgresTransaction(connection)

    async def close(self) -> None:
        await self._pool.close()


class _PostgresTransaction:
    def __init__(self, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        self._connection = connection

    async def rows(self, statement: Statement, values: Values = NO_VALUES) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(_adapted(statement.text), dict(values))
        return await cursor.fetchall()

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        cursor = await self._connection.execute(_adapted(statement.text), dict(values))
        return max(0, cursor.rowcount)

    async def run_many(self, statement: Statement, values: Sequence[Values]) -> None:
        if not values:
            return
        async with self._connection.cursor() as cursor:
            await cursor.executemany(_adapted(statement.text), [dict(each) for each in values])


_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)")


@cache
def _adapted(text: str) -> bytes:
    """`:name` in the driver's own form. As bytes, which the driver takes from anybody: the
    statements are files of ours, never input."""
    return _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%")).encode()


@contextmanager
def _translated(place: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError, UnicodeEncodeError) as error:
        raise TablesRefused(f"PostgreSQL: {said(error)}") from error
    except psycopg.errors.DiskFull as error:
        raise TablesFull(f"PostgreSQL: {said(error)}", "make room on its disk") from error
    except (psycopg.Error, PoolTimeout, PoolClosed) as error:
        if _is_about_the_server(error):
            raise TablesUnreachable(
                f"cannot use {place}: {said(error)}",
                "is the server running, and is the URL right?",
            ) from error
        raise TablesError(f"PostgreSQL: {said(error)}") from error


def _is_about_the_server(error: Exception) -> bool:
    """Not about one statement: there is no connection, it broke, or we are not let in."""
    if not isinstance(error, psycopg.Error):
        return True
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(("08", "28", "3D", "53", "57"))
