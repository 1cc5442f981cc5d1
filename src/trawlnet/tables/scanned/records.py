"""The statements about records: one template for all tables of records, each with its columns."""

from __future__ import annotations

from functools import cache
from string import Template
from typing import Literal

from trawlnet.tables.relational.database import Statement
from trawlnet.tables.scanned.rows import COLUMNS, NUMBERS, Table
from trawlnet.tables.statements import statements


@cache
def record_statement(
    action: Literal["create", "index", "put", "withdraw", "erase", "forget"], table: Table
) -> Statement:
    """For one of the tables."""
    columns = COLUMNS[table]
    text = _template(f"{action}_record").substitute(
        table=table,
        columns=", ".join(columns),
        typed_columns=",\n  ".join(
            f"{column} {'BIGINT' if column in NUMBERS else 'TEXT'}" for column in columns
        ),
        values=", ".join(f":{column}" for column in columns),
        updates=",\n  ".join(f"{column} = excluded.{column}" for column in columns),
    )
    return Statement(f"{action}_{table}", text)


@cache
def union_statement(
    name: Literal["held", "held_everywhere", "held_so_far", "live", "seen"],
) -> Statement:
    """Over all the tables together."""
    one = _template("every_record")
    every_record = "\n  UNION ALL\n  ".join(one.substitute(table=table) for table in Table)
    return Statement(name, _template(name).substitute(every_record=every_record))


def _template(name: str) -> Template:
    return Template(statements("scanned")[name, ""])
