"""What the crawlers need of ClickHouse, wherever it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

from trawlnet.tables.statements import statements

Parameter = str | int | Sequence[str]
NO_PARAMETERS: Mapping[str, Parameter] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Query:
    """A statement out of `sql/clickhouse_*.sql`; parameters are written `{name:Type}` in it."""

    name: str
    text: str


class Tables(Protocol):
    """Every method may take long and blocks nobody else."""

    async def run(self, query: Query, parameters: Mapping[str, Parameter] = NO_PARAMETERS) -> None:
        """A statement without a result; what it changes is durable on return."""

    async def rows(
        self, query: Query, parameters: Mapping[str, Parameter] = NO_PARAMETERS
    ) -> list[list[Any]]:
        """The whole result, so the query must bound it."""

    async def insert(self, query: Query, block: bytes) -> None:
        """Add one block in the Native format (see `native`); durable on return."""

    def stream(self, sql: str, layout: str) -> AsyncIterator[bytes]:
        """The result of somebody's own query, repeats left out, in one of ClickHouse's output
        formats, piece by piece."""

    async def close(self) -> None: ...


@cache
def statement(name: str) -> Query:
    return Query(name, statements("clickhouse")[name, ""])
