"""SQLite in a file of the workspace: nothing to start, one writer at a time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.engine.threads import Threads
from trawlnet.tables.errors import TablesBusy, TablesError, TablesFull, TablesRefused
from trawlnet.tables.relational.database import NO_VALUES, Dialect, Statement, Transaction, Values

R = TypeVar("R")

_BUSY_SECONDS = 30.0
_REFUSALS = (sqlite3.DataError, sqlite3.IntegrityError, OverflowError, UnicodeEncodeError)
# In this order: the journal's mode cannot change while somebody else writes.
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  # A commit is on the disk when it returns.
    "PRAGMA foreign_keys = ON",
)


async def open_sqlite(path: Path, *, readonly: bool = False) -> Sqlite:
    """Who only reads keeps nobody from writing, and makes no file."""
    thread = Threads(1, "sqlite")
    loop = asyncio.get_running_loop()
    try:
        connection = await loop.run_in_executor(thread, _look if readonly else _connect, path)
        return Sqlite(connection, thread, "BEGIN" if readonly else "BEGIN IMMEDIATE")
    except BaseException:
        thread.shutdown(wait=False)
        raise


def _connect(path: Path) -> sqlite3.Connection:
    try:
        make_directory(path.parent)
        # Transactions are begun and ended in words, never by the driver's guess.
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        fsync_path(path.parent)  # The first log of a new file is synced before any name is.
    except (sqlite3.Error, OSError) as error:
        raise TablesError(f"cannot open {path}: {error}", "is it an SQLite file?") from error
    return connection


def _look(path: Path) -> sqlite3.Connection:
    try:
        place = f"{path.resolve().as_uri()}?mode=ro"
        return sqlite3.connect(place, timeout=_BUSY_SECONDS, isolation_level=None, uri=True)
    except (sqlite3.Error, OSError) as error:
        raise TablesError(f"cannot read {path}: {error}", "is it an SQLite file?") from error


class Sqlite:
    """One connection, used from one thread; transactions queue up for it."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection, thread: Threads, begin: str) -> None:
        self._connection = connection
        self._thread = thread
        self._begin = begin
        self._turn = asyncio.Lock()

    async def rows(self, statement: Statement, values: Values = NO_VALUES) -> list[tuple[Any, ...]]:
        async with self.transaction() as transaction:
            return await transaction.rows(statement, values)

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        async with self.transaction() as transaction:
            return await transaction.run(statement, values)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._turn:
            try:
                await self._do(self._connection.execute, self._begin)
                yield _SqliteTransaction(self)
            except BaseException:
                # Who is cancelled while beginning may have begun all the same.
                await self._do(self._roll_back)
                raise
            await self._do(self._commit)

    async def close(self) -> None:
        async with self._turn:
            await self._do(self._connection.close)
            self._thread.shutdown(wait=False)

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            # A commit that failed leaves the transaction open, and the next could not begin.
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    async def _do(self, function: Callable[..., R], *args: Any) -> R:
        """In the connection's thread; a caller who is cancelled waits for the end of it, since
        what follows must find the connection at rest."""
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._thread, function, *args)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait([doing])
            raise
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise TablesBusy(
                    f"the database is in use for more than {_BUSY_SECONDS:.0f} s",
                    "wait for the other program, or stop it",
                ) from error
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise TablesFull(f"SQLite: {error}", "make room on the disk") from error
            raise TablesError(f"SQLite: {error}", "is there room on the disk?") from error
        except _REFUSALS as error:
            raise TablesRefused(f"SQLite: {error}") from error
        except sqlite3.Error as error:
            raise TablesError(f"SQLite: {error}") from error


class _SqliteTransaction:
    def __init__(self, db: Sqlite) -> None:
        self._db = db

    async def rows(self, statement: Statement, values: Values = NO_VALUES) -> list[tuple[Any, ...]]:
        return await self._db._do(self._rows, statement.text, values)

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        return await self._db._do(self._run, statement.text, values)

    async def run_many(self, statement: Statement, values: Sequence[Values]) -> None:
        if values:
            await self._db._do(self._run_many, statement.text, values)

    def _rows(self, text: str, values: Values) -> list[tuple[Any, ...]]:
        return self._db._connection.execute(text, dict(values)).fetchall()

    def _run(self, text: str, values: Values) -> int:
        return max(0, self._db._connection.execute(text, dict(values)).rowcount)

    def _run_many(self, text: str, values: Sequence[Values]) -> None:
        self._db._connection.executemany(text, [dict(each) for each in values])
