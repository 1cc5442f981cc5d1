"""The named statements: a file of `sql/` for each topic, a header `-- name: …` over each of them.

What differs between databases is there once for each, as in `-- name: claim (sqlite)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_HEADER = re.compile(r"^-- name: (\w+)(?: \((\w+)\))?\n", re.MULTILINE)


@cache
def statements(group: str) -> Mapping[tuple[str, str], str]:
    """Those of the files `<group>.sql` and `<group>_….sql`, by name and by database, which is
    empty where any will do."""
    found: dict[tuple[str, str], str] = {}
    for file in files("trawlnet.tables").joinpath("sql").iterdir():
        if re.fullmatch(rf"{group}(_\w+)?\.sql", file.name):
            _, *pieces = _HEADER.split(file.read_text("utf-8"))
            for name, database, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
                assert (name, database or "") not in found, f"two statements are called {name}"
                found[name, database or ""] = text.strip()
    return found
