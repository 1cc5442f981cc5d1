"""Between a row of the database and a PdsRow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus
from trawlnet.tables.relational.database import Dialect, Value, from_db, to_db


def status_of(word: str) -> PdsStatus:
    """A newer program may have written a word that this one does not know: its row is read all the
    same, as one of which nothing is known yet."""
    return PdsStatus(word) if word in _STATUSES else PdsStatus.PENDING


def source_of(word: str) -> PdsSource:
    return PdsSource(word) if word in _SOURCES else PdsSource.UNKNOWN


def reason_of(word: str) -> Reason:
    return Reason(word) if word in _REASONS else Reason.UNKNOWN


_STATUSES, _SOURCES, _REASONS = frozenset(PdsStatus), frozenset(PdsSource), frozenset(Reason)


def _instant(value: Any) -> float:
    return from_db(value) or 0.0


# How a column is read that is not what the row holds.
_READ: Mapping[str, Callable[[Any], Any]] = {
    "discovered_at": _instant,
    "discovery_source": source_of,
    "status": status_of,
    "last_scan_at": from_db,
    "next_scan_at": from_db,
    "has_chive_records": lambda value: None if value is None else bool(value),
    "is_relay_connected": bool,
    "last_try_at": from_db,
    "last_reason": lambda word: reason_of(word) if word else None,
    "updated_at": _instant,
    "lease_until": from_db,
}
_READERS = tuple(_READ.get(field.name) for field in fields(PdsRow))


def row_of(columns: tuple[Any, ...]) -> PdsRow:
    """The view pds_entries has them in the order of the fields."""
    both = zip(_READERS, columns, strict=True)
    return PdsRow(*[value if read is None else read(value) for read, value in both])


_AS_THEY_ARE = (
    *("has_chive_records", "chive_record_count", "indexed_record_count"),
    *("consecutive_failures", "scan_priority", "last_error"),
)
_INSTANTS = ("last_scan_at", "next_scan_at", "last_try_at", "updated_at")


def columns_of(dialect: Dialect, row: PdsRow) -> dict[str, Value]:
    """What a scan or a revival may change."""
    same = {name: getattr(row, name) for name in _AS_THEY_ARE}
    instants = {name: to_db(dialect, getattr(row, name)) for name in _INSTANTS}
    reason = None if row.last_reason is None else str(row.last_reason)
    words = {"url": row.pds_url, "status": str(row.status), "last_reason": reason}
    return same | instants | words | {"scan_order": to_db(dialect, row.order)}
