"""The statements about records: one template for all tables of records, each with its columns."""

from __future__ import annotations

from functools import cache
from string import Template
from typing import Literal

from trawlnet.tables.relational.database import Statement
from trawlnet.tables.scanned.rows import COLUMNS, Table
from trawlnet.tables.statements import statements


@cache
def record_statement(
    deed: Literal["index", "put", "withdraw", "erase", "forget"], table: Table
) -> Statement:
    columns = COLUMNS[table]
    template = Template(statements("scanned")[f"{deed}_record", ""])
    text = template.substitute(
        table=table,
        columns=", ".join(columns),
        values=", ".join(f":{column}" for column in columns),
        updates=",\n  ".join(f"{column} = excluded.{column}" for column in columns),
    )
    return Statement(f"{deed}_{table}", text)
