"""What a scan writes down, as values: records, the walk over a PDS, the reading of a repo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from trawlnet.tables.relational import Value, Values


class Table(StrEnum):
    EPRINTS = "eprints"
    REVIEWS = "reviews"
    ENDORSEMENTS = "endorsements"
    TAGS = "tags"
    RECORDS = "records"
    INVALID = "invalid_records"


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


@dataclass(frozen=True, slots=True)
class Record:
    table: Table
    uri: str
    cid: str
    did: str
    rkey: str
    collection: str
    raw_json: str
    is_indexed: bool
    columns: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
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
    scope: str = ""  # What was looked for, as a digest.
    by_collection: str = ""  # Whether the PDS lists repos by collection: yes, no, not asked yet.
    leads_at: float = 0.0  # When the leads of this walk were begun; 0: there are none.
    leads_todo: tuple[str, ...] = ()  # Collections still to be asked for.
    leads_cursor: str = ""


@dataclass(frozen=True, slots=True)
class ListedRepo:
    did: str
    rev: str
    is_active: bool = True  # Not switched off for good.
    is_readable: bool = True  # Nor for the moment.


@dataclass(frozen=True, slots=True)
class Listed:
    """What came of a page of the listing."""

    new: int  # Repos that this walk had not met before.
    pending: int  # Repos that are to be read now.
    progress: Progress  # As it was saved.


@dataclass(frozen=True, slots=True)
class Reading:
    """One repo, and how far it has been read. A later reading has a higher number."""

    did: str
    rev: str  # As listed when the reading began.
    number: int
    todo: tuple[str, ...] | None = None  # Collections, the current one first; None: not known yet.
    cursor: str = ""
    pages: int = 0  # Of the current collection.
    is_held: bool = False  # Whether there may be records of it in the tables.
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """Live records of a PDS by collection."""

    records: Mapping[str, int] = field(default_factory=dict)
    indexed: int = 0


def progress_of(row: tuple[Any, ...]) -> Progress:
    values = dict(zip(_PROGRESS, row, strict=True))
    for flag in ("is_open", "is_listed", "is_full"):
        values[flag] = bool(values[flag])
    return Progress(**values | {"leads_todo": tuple(orjson.loads(values["leads_todo"]))})


# In the order of the statement.
_PROGRESS = (
    *("walk", "is_open", "is_listed", "is_full", "cursor", "end_cursor", "pages", "page_size"),
    *("last_rows", "scope", "by_collection", "leads_at", "leads_todo", "leads_cursor"),
)


def progress_values(pds_url: str, progress: Progress) -> dict[str, Value]:
    return {
        "pds_url": pds_url,
        "walk": progress.walk,
        "is_open": int(progress.is_open),
        "is_listed": int(progress.is_listed),
        "is_full": int(progress.is_full),
        "listing_cursor": progress.cursor,
        "end_cursor": progress.end_cursor,
        "pages": progress.pages,
        "page_size": progress.page_size,
        "last_rows": progress.last_rows,
        "scope": progress.scope,
        "by_collection": progress.by_collection,
        "leads_at": progress.leads_at,
        "leads_todo": orjson.dumps(progress.leads_todo).decode(),
        "leads_cursor": progress.leads_cursor,
    }


def reading_of(row: tuple[Any, ...]) -> Reading:
    did, listed_rev, number, reading_rev, todo, cursor, pages, is_held = row[:8]
    if todo is None:
        return Reading(did, listed_rev, number + 1, is_held=bool(is_held))
    collections = tuple(orjson.loads(todo))
    return Reading(did, reading_rev, number, collections, cursor, pages, bool(is_held))


def reading_values(pds_url: str, reading: Reading) -> Values:
    return {
        "pds_url": pds_url,
        "did": reading.did,
        "reading": reading.number,
        "reading_rev": reading.rev,
        "todo": orjson.dumps(reading.todo or ()).decode(),
        "todo_cursor": reading.cursor,
        "todo_pages": reading.pages,
    }


def record_values(pds_url: str, record: Record, reading: Reading) -> dict[str, Value]:
    own = {name: record.columns.get(name) for name in COLUMNS[record.table]}
    return own | {
        "uri": record.uri,
        "cid": record.cid,
        "did": record.did,
        "rkey": record.rkey,
        "collection": record.collection,
        "pds_url": pds_url,
        "raw_json": record.raw_json,
        "scan": reading.number,
    }


def end_values(pds_url: str, reading: Reading) -> Values:
    return {
        "pds_url": pds_url,
        "did": reading.did,
        # Whatever went wrong has to be read again, even if nothing changes.
        "rev": "" if reading.trouble else reading.rev,
        "reading": reading.number,
        "is_held": int(reading.is_held),
        "trouble": reading.trouble,
    }
