"""The named statements of ClickHouse."""

from __future__ import annotations

from functools import cache

from trawlnet.tables.clickhouse.ports import Query
from trawlnet.tables.statements import statements


@cache
def statement(name: str) -> Query:
    return Query(name, statements("clickhouse")[name, ""])
