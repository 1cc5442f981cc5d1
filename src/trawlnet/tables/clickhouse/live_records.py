"""Changes of records as they are heard of, in the table that a replay fills as well.

Every row has the instant at which the change was heard of, which only grows: inserting it again
changes nothing, and so the position in the log of events may be saved after what it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from trawlnet.tables.clickhouse import native
from trawlnet.tables.clickhouse.ports import Tables, statement
from trawlnet.tables.clickhouse.records import OPERATION, RepoRow, insert_repos

_CODES: Final = {"create": 1, "update": 2, "delete": 3}
_NAME: Final = "repo_records"
_AT_ONCE = 500  # Accounts in one parameter.


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One row."""

    repo: str
    collection: str
    rkey: str
    operation: Literal["create", "update", "delete"]
    record_json: bytes  # Empty for a deletion.
    time_us: int


async def insert_changes(tables: Tables, changes: Sequence[RecordChange]) -> None:
    instants = [one.time_us for one in changes]
    columns = [
        native.texts("repo", [one.repo for one in changes]),
        native.texts("collection", [one.collection for one in changes]),
        native.texts("rkey", [one.rkey for one in changes]),
        native.NativeColumn(
            "operation", OPERATION, bytes(_CODES[one.operation] for one in changes)
        ),
        native.NativeColumn(
            "record_json", "String", b"".join([native.text(one.record_json) for one in changes])
        ),
        native.instants("created_at", instants),
        native.integers("time_us", instants),
    ]
    if changes:
        block = native.block(columns, len(changes))
        await tables.insert(statement("insert_repo_records"), block)


async def clear_repos(tables: Tables, instants: Mapping[str, int]) -> None:
    """Accounts that went, and when: of each, all rows before that instant are deletions now. A
    replay of an archive that does not know of it yet heeds it as well."""
    gone = [RepoRow(repo, "", "", 0, instants[repo]) for repo in instants]
    await insert_repos(tables, gone)
    for at in range(0, len(gone), _AT_ONCE):
        some = gone[at : at + _AT_ONCE]
        repos, times = [row.repo for row in some], [str(row.time_us) for row in some]
        await tables.run(statement("clear_repos"), {"repos": repos, "instants": times})


async def live_position(tables: Tables) -> int | None:
    """The instant of the last change that is there, as all before it are; None: none ever was."""
    rows = await tables.rows(statement("mirror_cursor"), {"name": _NAME})
    return rows[0][2] if rows else None


async def save_live_position(tables: Tables, time_us: int) -> None:
    place = {"name": _NAME, "source": "repo_events", "form": "time_us"}
    await tables.run(statement("save_mirror_cursor"), place | {"position": time_us})
