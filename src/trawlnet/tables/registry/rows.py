"""Between a row of the database and a PdsRow."""

from __future__ import annotations

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


def row_of(columns: tuple[Any, ...]) -> PdsRow:
    (
        url,
        discovered_at,
        source,
        status,
        last_scan_at,
        next_scan_at,
        has_records,
        records,
        failures,
        priority,
        error,
        connected,
        accounts,
        indexed,
        last_try_at,
        reason,
        updated_at,
        owner,
        until,
    ) = columns
    return PdsRow(
        pds_url=url,
        discovered_at=from_db(discovered_at) or 0.0,
        discovery_source=source_of(source),
        status=status_of(status),
        last_scan_at=from_db(last_scan_at),
        next_scan_at=from_db(next_scan_at),
        has_chive_records=None if has_records is None else bool(has_records),
        chive_record_count=records,
        consecutive_failures=failures,
        scan_priority=priority,
        last_error=error,
        is_relay_connected=bool(connected),
        account_count=accounts,
        indexed_record_count=indexed,
        last_try_at=from_db(last_try_at),
        last_reason=None if not reason else reason_of(reason),
        updated_at=from_db(updated_at) or 0.0,
        lease_owner=owner,
        lease_until=from_db(until),
    )


def columns_of(dialect: Dialect, row: PdsRow) -> dict[str, Value]:
    """What a scan or a revival may change."""
    return {
        "url": row.pds_url,
        "status": str(row.status),
        "last_scan_at": to_db(dialect, row.last_scan_at),
        "next_scan_at": to_db(dialect, row.next_scan_at),
        "has_chive_records": row.has_chive_records,
        "chive_record_count": row.chive_record_count,
        "indexed_record_count": row.indexed_record_count,
        "consecutive_failures": row.consecutive_failures,
        "scan_priority": row.scan_priority,
        "scan_order": to_db(dialect, row.order),
        "last_error": row.last_error,
        "last_try_at": to_db(dialect, row.last_try_at),
        "last_reason": None if row.last_reason is None else str(row.last_reason),
        "updated_at": to_db(dialect, row.updated_at),
    }
