"""Records of archived repositories as rows, and what is remembered about replaying them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trawlnet.tables.clickhouse import native
from trawlnet.tables.clickhouse.ports import Tables, statement

OPERATION = "Enum8('create' = 1, 'update' = 2, 'delete' = 3)"
_CREATE = b"\x01"
_INSTANT = struct.Struct("<q")
_LOOKUP = 2000  # DIDs in one parameter.

# Segments and filters that were replayed to the end, and repeats not merged away yet.
Finished = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class RepoRow:
    """One replayed repository."""

    repo: str
    pds: str
    rev: str
    records: int
    time_us: int


@dataclass(slots=True)
class RecordBatch:
    """Rows on their way, as columns: repositories repeat their values, records come as bytes."""

    repos: list[RepoRow] = field(default_factory=list)
    rows: int = 0
    size: int = 0  # In bytes, about.
    _repo: list[bytes] = field(default_factory=list)
    _collection: list[bytes] = field(default_factory=list)
    _rkey: list[bytes] = field(default_factory=list)
    _json: list[bytes] = field(default_factory=list)
    _instant: list[bytes] = field(default_factory=list)

    def add(self, repo: RepoRow, collection: str, records: native.TextPairs) -> None:
        count = records.rows
        self._repo.append(native.text(repo.repo.encode()) * count)
        self._collection.append(native.text(collection.encode()) * count)
        self._rkey.append(records.first)
        self._json.append(records.second)
        self._instant.append(_INSTANT.pack(repo.time_us) * count)
        self.rows += count
        self.size += len(records.first) + len(records.second) + count * _OTHER_COLUMNS

    def block(self) -> bytes:
        instants = b"".join(self._instant)
        columns = [
            native.NativeColumn("repo", "String", b"".join(self._repo)),
            native.NativeColumn("collection", "String", b"".join(self._collection)),
            native.NativeColumn("rkey", "String", b"".join(self._rkey)),
            native.NativeColumn("operation", OPERATION, _CREATE * self.rows),
            native.NativeColumn("record_json", "String", b"".join(self._json)),
            native.NativeColumn("created_at", "DateTime64(6)", instants),
            native.NativeColumn("time_us", "Int64", instants),
        ]
        return native.block(columns, self.rows)


_OTHER_COLUMNS = 80  # Bytes of a row besides its key and its JSON, about.


async def insert_repos(tables: Tables, repos: Sequence[RepoRow]) -> None:
    columns = [
        native.texts("repo", [row.repo for row in repos]),
        native.texts("pds", [row.pds for row in repos]),
        native.texts("rev", [row.rev for row in repos]),
        native.naturals("records", [row.records for row in repos]),
        native.integers("time_us", [row.time_us for row in repos]),
    ]
    if repos:
        block = native.block(columns, len(repos))
        await tables.insert(statement("insert_replayed_repos"), block)


async def insert_records(tables: Tables, batch: RecordBatch) -> None:
    if batch.rows:
        await tables.insert(statement("insert_repo_records"), batch.block())


async def replayed_at(tables: Tables, repos: Sequence[str]) -> dict[str, int]:
    """When those of these repositories that were replayed before had been crawled."""
    found: dict[str, int] = {}
    for at in range(0, len(repos), _LOOKUP):
        some = list(repos[at : at + _LOOKUP])
        for repo, time_us in await tables.rows(statement("replayed_at"), {"repos": some}):
            found[repo] = time_us
    return found


async def finished_segments(tables: Tables) -> Finished:
    rows = await tables.rows(statement("replayed_segments"))
    return {(segment, collections): repeats for segment, collections, repeats in rows}


async def note_segment(
    tables: Tables, segment: str, collections: str, records: int, repeats: int
) -> None:
    await tables.run(
        statement("note_replayed_segment"),
        {
            "segment": segment,
            "collections": collections,
            "records": records,
            "repeats": repeats,
        },
    )


async def prune_repeats(
    tables: Tables, is_wanted: Callable[[str], bool] = lambda collection: True
) -> None:
    """Afterwards none is there that its repository no longer has, of the collections that were
    replayed."""
    found = [name for (name,) in await tables.rows(statement("collections"))]
    wanted = [name for name in found if is_wanted(name)]
    await tables.run(statement("prune_repo_records"), {"collections": wanted})


async def merge_repeats(tables: Tables) -> None:
    """Afterwards each record is there once, also for those who ask without FINAL."""
    await tables.run(statement("merge_repo_records"))


async def note_merged(tables: Tables, collections: str) -> None:
    """There is nothing left to prune of what was replayed with this filter."""
    await tables.run(statement("note_merged_segments"), {"collections": collections})


async def forget_records(tables: Tables) -> None:
    for name in ("replayed_segments", "repo_records", "replayed_repos"):
        await tables.run(statement(f"truncate_{name}"))
