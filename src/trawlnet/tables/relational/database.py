"""What the crawlers need of a relational database, SQLite or PostgreSQL, and how to open one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, Protocol

from trawlnet.tables.errors import TablesError
from trawlnet.tables.statements import statements

Dialect = Literal["sqlite", "postgresql"]
Value = None | bool | int | float | str | bytes | datetime
Values = Mapping[str, Value]
NO_VALUES: Values = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; parameters are written `:name` in it."""

    name: str
    text: str


Steps = Sequence[Sequence[str | Statement]]  # Statements, or their names.


class Transaction(Protocol):
    """Everything or nothing, once the block around it ends."""

    async def rows(
        self, statement: Statement, values: Values = NO_VALUES
    ) -> list[tuple[Any, ...]]: ...

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        """Returns how many rows were changed."""

    async def run_many(self, statement: Statement, values: Sequence[Values]) -> None:
        """Once for each values, before the next statement or the commit, which may raise for it."""


class Relational(Protocol):
    """Each call outside `transaction` is a transaction of its own, durable on return."""

    @property
    def dialect(self) -> Dialect: ...

    async def rows(self, statement: Statement, values: Values = NO_VALUES) -> list[tuple[Any, ...]]:
        """The whole result, so the statement must bound it."""

    async def run(self, statement: Statement, values: Values = NO_VALUES) -> int:
        """Returns how many rows were changed."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Commits when the block ends well; an exception takes everything back."""

    async def close(self) -> None: ...


@cache
def named(group: str, name: str, dialect: Dialect) -> Statement:
    """A statement of the group, the dialect's own where there is one."""
    texts = statements(group)
    return Statement(name, texts.get((name, dialect)) or texts[name, ""])


async def migrate_relational(db: Relational, folder: str, steps: Steps) -> None:
    """Bring the tables of a folder up to the version that this program knows. Each step is one
    transaction, so a step is made whole or not at all, by one of several programs."""
    for number, step in enumerate(steps, start=1):
        async with db.transaction() as transaction:
            await transaction.rows(named(_VERSIONS, "lock", db.dialect))
            await transaction.run(named(_VERSIONS, "create", db.dialect))
            current = named(_VERSIONS, "current", db.dialect)
            ((version,),) = await transaction.rows(current, {"folder": folder})
            if version > len(steps):
                raise _newer(folder, version, len(steps))
            if version >= number:
                continue
            for one in step:
                made = named(folder, one, db.dialect) if isinstance(one, str) else one
                await transaction.run(made)
            note = named(_VERSIONS, "note", db.dialect)
            await transaction.run(note, {"folder": folder, "version": number})


_VERSIONS = "versions"

# The steps of each folder that this program knows.
NEWEST: Mapping[str, int] = MappingProxyType({"registry": 3, "scanned": 4, "instances": 1})


async def refuse_newer(db: Relational) -> None:
    """For whoever only reads, and so makes no step, or the steps of one folder only."""
    if not await db.rows(named(_VERSIONS, "are_there", db.dialect)):
        return
    for folder, version in await db.rows(named(_VERSIONS, "newest", db.dialect)):
        if version > NEWEST.get(folder, version):
            raise _newer(folder, version, NEWEST[folder])


def _newer(folder: str, version: int, known: int) -> TablesError:
    return TablesError(
        f"the tables of {folder} have schema version {version}, this program knows {known}",
        "use the newer trawlnet that made them",
    )


def to_db(dialect: Dialect, seconds: float | None) -> Value:
    """An instant as the database keeps it: TIMESTAMPTZ, or ISO 8601 text that sorts by time."""
    if seconds is None:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="microseconds") if dialect == "sqlite" else moment


def from_db(value: Any) -> float | None:
    """Unix seconds of an instant out of either database."""
    if value is None:
        return None
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    seconds: float = moment.timestamp()
    return seconds
