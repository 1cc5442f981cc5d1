"""The named statements: one file each, described in its first line."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from trawlnet.tables.ports import Query


@cache
def statement(name: str) -> Query:
    """The statement in `sql/<name>.sql`."""
    text = files("trawlnet.tables").joinpath("sql", f"{name}.sql").read_text("utf-8")
    return Query(name, text.strip())
