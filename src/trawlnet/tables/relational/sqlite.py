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
from trawlnet.tables.relational.database import (
    NO_VALUES,
    Dialect,
    Statement,
    Transaction,
    Value,
    Values,
)

R = TypeVar("R")

_BUSY_SECONDS = 30.0
_REFUSALS = (sqlite3.DataError, sqlite3.IntegrityError, OverflowError, UnicodeEncodeError)
_MOST_WAITING = 500  # Rows of statements that return nothing.
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
        async with self._turn:
            return await self._do(self._alone, self._rows, statement.text, values)

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        async with self._turn:
            return await self._do(self._alone, self._run, statement.text, values)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._turn:
            transaction = _SqliteTransaction(self)
            try:
                yield transaction
            except BaseException:
                await self._do(self._roll_back)
                raise
            if transaction.is_open:
                await self._do(transaction.commit)

    async def close(self) -> None:
        async with self._turn:
            await self._do(self._connection.close)
            self._thread.shutdown(wait=False)

    def _alone(self, make: Callable[[str, Values], R], text: str, values: Values) -> R:
        """One statement as a whole transaction: each call of the thread wakes it, and us."""
        try:
            self._connection.execute(self._begin)
            made = make(text, values)
        except BaseException:
            self._roll_back()
            raise
        self._commit()
        return made

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

    def _rows(self, text: str, values: Values) -> list[tuple[Any, ...]]:
        return self._connection.execute(text, dict(values)).fetchall()

    def _run(self, text: str, values: Values) -> int:
        return max(0, self._connection.execute(text, dict(values)).rowcount)

    async def _do(self, function: Callable[..., R], *args: Any) -> R:
        """In the connection's thread; a caller who is cancelled waits for the end of it, since
        what follows must find the connection at rest."""
        try:
            made: R = await self._thread.submit_whole(function, *args)
            return made
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
    """Each call of the thread wakes it, and then us: so the transaction begins with its first
    statement, and statements that return nothing wait for the next one, or for the commit."""

    def __init__(self, db: Sqlite) -> None:
        self._db = db
        self._is_begun = False
        self._waiting: list[tuple[str, list[dict[str, Value]]]] = []

    @property
    def is_open(self) -> bool:
        return self._is_begun or bool(self._waiting)

    async def rows(self, statement: Statement, values: Values = NO_VALUES) -> list[tuple[Any, ...]]:
        return await self._db._do(self._made, self._db._rows, statement.text, values)

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        return await self._db._do(self._made, self._db._run, statement.text, values)

    async def run_many(self, statement: Statement, values: Sequence[Values]) -> None:
        if values:
            self._waiting.append((statement.text, [dict(each) for each in values]))
        if sum(len(rows) for _, rows in self._waiting) >= _MOST_WAITING:
            await self._db._do(self._catch_up)

    def commit(self) -> None:
        try:
            self._catch_up()
        except BaseException:
            self._db._roll_back()
            raise
        self._db._commit()

    def _made(self, make: Callable[[str, Values], R], text: str, values: Values) -> R:
        self._catch_up()
        return make(text, values)

    def _catch_up(self) -> None:
        if not self._is_begun:
            self._db._connection.execute(self._db._begin)
            self._is_begun = True
        for text, rows in self._waiting:
            self._db._connection.executemany(text, rows)
        self._waiting = []
