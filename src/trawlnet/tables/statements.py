"""The named statements: a file of `sql/` for each topic, a header `-- name: …` over each of them.

What differs between databases is there once for each, as in `-- name: claim (sqlite)`. What several
statements share stands above them under `-- part: …`, and in them as `$…`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template

_HEADER = re.compile(r"^-- (name|part): (\w+)(?: \((\w+)\))?\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@cache
def statements(group: str) -> Mapping[tuple[str, str], str]:
    """Those of the files `<group>.sql` and `<group>_….sql`, by name and by database, which is
    empty where any will do."""
    found: dict[tuple[str, str], str] = {}
    for file in files("trawlnet.tables").joinpath("sql").iterdir():
        if re.fullmatch(rf"{group}(_\w+)?\.sql", file.name):
            _add(found, file.read_text("utf-8"))
    return found


def _add(found: dict[tuple[str, str], str], text: str) -> None:
    parts: dict[str, str] = {}
    _, *pieces = _HEADER.split(text)
    for kind, name, database, piece in zip(*(pieces[at::4] for at in range(4)), strict=True):
        whole = Template(piece.strip()).safe_substitute(parts)
        if kind == "part":
            parts[name] = _COMMENT.sub("", whole)
        else:
            assert (name, database or "") not in found, f"two statements are called {name}"
            found[name, database or ""] = whole
