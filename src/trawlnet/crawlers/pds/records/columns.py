"""Extracts the columns of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from trawlnet.tables.relational.database import Value
from trawlnet.tables.scanned.rows import Table

_LONGEST = 1 << 20  # Characters of one column; the whole record is stored, too.
_WHOLE = 1 << 63


def columns_of(table: Table, record: Mapping[str, Any]) -> Mapping[str, Value]:
    """NULL for a field that the record lacks, or that has another type."""
    return {
        column: show(at(record, path)) for column, (path, show) in _PATHS.get(table, {}).items()
    }


def at(value: Any, path: str) -> Any:
    """The value at a path of names; None if there is none."""
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _text(value: Any) -> Value:
    # PostgreSQL cannot store the character zero.
    return value[:_LONGEST].replace("\0", "\ufffd") if isinstance(value, str) else None


def _number(value: Any) -> Value:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and -_WHOLE <= value < _WHOLE else None


def _json(value: Any) -> Value:
    return None if value is None else orjson.dumps(value).decode()[:_LONGEST]


def _prose(value: Any) -> Value:
    """The text of a list of passages, for searching."""
    if not isinstance(value, list):
        return _text(value)
    said = (at(passage, "content") or at(passage, "text") for passage in value)
    return _text("\n".join(words for words in said if isinstance(words, str)))


_Columns = Mapping[str, tuple[str, Callable[[Any], Value]]]

_PATHS: Mapping[Table, _Columns] = {
    Table.EPRINTS: {
        "title": ("title", _text),
        "abstract": ("abstract", _prose),
        "license": ("licenseSlug", _text),
        "submitted_by": ("submittedBy", _text),
        "authors": ("authors", _json),
        "document_cid": ("document.ref.$link", _text),
        "document_mime": ("document.mimeType", _text),
        "document_size": ("document.size", _number),
        "created_at": ("createdAt", _text),
    },
    Table.REVIEWS: {
        "eprint_uri": ("eprintUri", _text),
        "parent_uri": ("parentComment", _text),
        "body": ("body", _prose),
        "created_at": ("createdAt", _text),
    },
    Table.ENDORSEMENTS: {
        "eprint_uri": ("eprintUri", _text),
        "contributions": ("contributions", _json),
        "comment": ("comment", _text),
        "created_at": ("createdAt", _text),
    },
    Table.TAGS: {
        "eprint_uri": ("eprintUri", _text),
        "tag": ("tag", _text),
        "created_at": ("createdAt", _text),
    },
    Table.RECORDS: {"created_at": ("createdAt", _text)},
}
