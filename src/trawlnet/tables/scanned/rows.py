"""What a scan writes down, as values: records, the walk over a PDS, the reading of a repo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from trawlnet.engine.outcome import Reason
from trawlnet.tables.relational.database import Value, Values


class Table(StrEnum):
    EPRINTS = "eprints"  # Submitted preprints.
    REVIEWS = "reviews"  # Comments on them.
    ENDORSEMENTS = "endorsements"
    TAGS = "tags"  # Of preprints; not indexed until tags are asked for.
    RECORDS = "records"  # Of any other collection, as they are.
    INVALID = "invalid_records"  # Not as the lexicon of their collection has it, and why.


# The columns that a table has besides those of all.
COLUMNS: Mapping[Table, tuple[str, ...]] = {
    Table.EPRINTS: (
        *("title", "abstract", "license", "submitted_by", "authors"),
        *("document_cid", "document_mime", "document_size", "created_at"),
    ),
    Table.REVIEWS: ("eprint_uri", "parent_uri", "body", "created_at"),
    Table.ENDORSEMENTS: ("eprint_uri", "contributions", "comment", "created_at"),
    Table.TAGS: ("eprint_uri", "tag", "created_at"),
    Table.RECORDS: ("created_at",),
    Table.INVALID: ("problem",),
}
NUMBERS = frozenset({"document_size"})  # Columns that are no text.


@dataclass(frozen=True, slots=True)
class ScannedRecord:
    table: Table
    uri: str
    cid: str
    did: str
    rkey: str
    collection: str
    raw_json: str
    is_indexed: bool
    columns: Mapping[str, Value] = field(default_factory=dict)
    mentions: frozenset[str] = frozenset()  # DIDs that it names, besides its own.


@dataclass(frozen=True, slots=True)
class ScanScope:
    """What scans look for. Each scope has walks of its own, and withdraws only what it looks at."""

    digest: str
    wants: Callable[[str], bool]  # Whether a collection is looked for.
    names: frozenset[str] = frozenset()  # Those that are looked for by name.

    def covers(self, collection: str, *, by_names: bool) -> bool:
        """Whether a reading to the end has looked at a collection."""
        return collection in self.names if by_names else self.wants(collection)


@dataclass(frozen=True, slots=True)
class ScanKey:
    """Whose walk over which PDS. The lease is the owner of the claim on the PDS: a scan that has
    lost it can write nothing."""

    pds_url: str
    scope: ScanScope
    lease: str

    @property
    def values(self) -> dict[str, Value]:
        return {"pds_url": self.pds_url, "scope": self.scope.digest}


@dataclass(frozen=True, slots=True)
class WalkProgress:
    """One walk over a PDS: listing its repos, and reading those that changed."""

    walk: int = 0
    is_open: bool = False  # Begun and not finished.
    is_listed: bool = False  # The listing has come to its end.
    is_full: bool = False  # Reads every repo, whatever its rev says.
    cursor: str = ""  # Of the next page of the listing.
    end_cursor: str = ""  # The one behind which the last whole walk found nothing.
    pages: int = 0
    page_size: int = 0  # Rows of a page that others follow; 0: never seen.
    last_rows: int = 0  # Of the page before.
    by_collection: str = ""  # Whether the PDS lists repos by collection: yes, no, not asked yet.
    leads_at: float = 0.0  # When the leads of this walk were begun; 0: there are none.
    leads_todo: tuple[str, ...] = ()  # Collections still to be asked for.
    leads_cursor: str = ""
    strangers: int = 0  # Accounts looked up in a row that do not live here.

    @property
    def is_end_assumed(self) -> bool:
        """Whether the listing was ended by a cursor that led nowhere the last time."""
        return bool(self.cursor) and self.cursor == self.end_cursor and self.last_rows > 0


@dataclass(frozen=True, slots=True)
class ListedRepo:
    did: str
    rev: str
    is_active: bool = True  # Not switched off for good.
    is_readable: bool = True  # Nor for the moment.


@dataclass(frozen=True, slots=True)
class StoredListing:
    """What came of a page of the listing."""

    new: int  # Repos that this walk had not met before.
    pending: int  # Repos that are to be read now.
    progress: WalkProgress  # As it was saved.


@dataclass(frozen=True, slots=True)
class RepoReading:
    """One repo, and how far it has been read. A later reading has a higher number."""

    did: str
    rev: str  # As listed when the reading began.
    number: int
    todo: tuple[str, ...] | None = None  # Collections, the current one first; None: not known yet.
    cursor: str = ""
    rows: int = 0  # That pages of the current collection had.
    is_held: bool = False  # Whether there may be records of it in the tables.
    by_names: bool = False  # Its collections were asked for by name: others were not looked at.
    is_flawed: bool = False  # Something in it could not be read: nothing is known to be gone.
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class LastReading:
    """What is known of a repo before it is read once more."""

    number: int = 0  # Of the last reading, whatever it was for.
    rev: str = ""  # That was read for this scope.
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """Live records of a PDS by collection."""

    records: Mapping[str, int] = field(default_factory=dict)
    indexed: Mapping[str, int] = field(default_factory=dict)


def progress_of(row: tuple[Any, ...]) -> WalkProgress:
    values = dict(zip(_PROGRESS, row, strict=True))
    for flag in ("is_open", "is_listed", "is_full"):
        values[flag] = bool(values[flag])
    return WalkProgress(**values | {"leads_todo": tuple(orjson.loads(values["leads_todo"]))})


# In the order of the statement.
_PROGRESS = (
    *("walk", "is_open", "is_listed", "is_full", "cursor", "end_cursor", "pages", "page_size"),
    *("last_rows", "by_collection", "leads_at", "leads_todo", "leads_cursor", "strangers"),
)


def progress_values(key: ScanKey, progress: WalkProgress) -> dict[str, Value]:
    return key.values | {
        "walk": progress.walk,
        "is_open": int(progress.is_open),
        "is_listed": int(progress.is_listed),
        "is_full": int(progress.is_full),
        "listing_cursor": progress.cursor,
        "end_cursor": progress.end_cursor,
        "pages": progress.pages,
        "page_size": progress.page_size,
        "last_rows": progress.last_rows,
        "by_collection": progress.by_collection,
        "leads_at": progress.leads_at,
        "leads_todo": orjson.dumps(progress.leads_todo).decode(),
        "leads_cursor": progress.leads_cursor,
        "strangers": progress.strangers,
    }


def reading_of(row: tuple[Any, ...]) -> RepoReading:
    did, listed_rev, number, reading_rev, todo, cursor, rows, by_names, is_flawed = row[:9]
    latest, is_held = row[9], bool(row[10])
    if todo is None:
        return RepoReading(did, listed_rev, latest + 1, is_held=is_held)
    return RepoReading(
        did,
        reading_rev,
        number,
        tuple(orjson.loads(todo)),
        cursor,
        rows,
        is_held,
        bool(by_names),
        bool(is_flawed),
    )


def reading_values(key: ScanKey, reading: RepoReading) -> Values:
    return key.values | {
        "did": reading.did,
        "reading": reading.number,
        "reading_rev": reading.rev,
        "todo": orjson.dumps(reading.todo or ()).decode(),
        "todo_cursor": reading.cursor,
        "todo_rows": reading.rows,
        "by_names": int(reading.by_names),
        "is_flawed": int(reading.is_flawed),
    }


def record_values(pds_url: str, record: ScannedRecord, scan: int) -> dict[str, Value]:
    own = {name: record.columns.get(name) for name in COLUMNS[record.table]}
    return own | {
        "uri": record.uri,
        "cid": record.cid,
        "did": record.did,
        "rkey": record.rkey,
        "collection": record.collection,
        "pds_url": pds_url,
        "raw_json": record.raw_json,
        "scan": scan,
    }


def end_values(key: ScanKey, reading: RepoReading) -> Values:
    trouble = str(Reason.PARSE_ERROR) if reading.is_flawed else reading.trouble
    return key.values | {
        "did": reading.did,
        # Whatever went wrong has to be read again, even if nothing changes.
        "rev": "" if trouble else reading.rev,
        "reading": reading.number,
        "is_held": int(reading.is_held),
        "trouble": trouble,
    }
