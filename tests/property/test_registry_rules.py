"""What holds for a registry row after any series of scans."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.rules import (
    DAY,
    GIVE_UP_AT,
    HOUR,
    MEDIUM,
    FoundPds,
    PdsRow,
    PdsSource,
    PdsStatus,
    ScanEnded,
    after_completed,
    after_failed,
    after_partial,
    after_put_off,
    backoff,
    is_revived,
    revived,
)

NOW = 1_800_000_000.0
FRESH = PdsRow(
    pds_url="https://pds.net-a.org",
    discovered_at=NOW,
    discovery_source=PdsSource.PLC,
    status=PdsStatus.PENDING,
    last_scan_at=None,
    next_scan_at=None,
    has_chive_records=None,
    chive_record_count=0,
    consecutive_failures=0,
    scan_priority=MEDIUM,
    last_error=None,
    is_relay_connected=False,
    account_count=None,
    indexed_record_count=0,
    last_try_at=None,
    last_reason=None,
    updated_at=NOW,
    lease_owner=None,
    lease_until=None,
)
events = st.one_of(
    st.tuples(st.just("completed"), st.integers(0, 3)),
    st.tuples(st.just("partial"), st.floats(0, DAY)),
    st.tuples(st.just("put_off"), st.floats(0, DAY)),
    st.tuples(st.just("failed"), st.text(max_size=5)),
    st.tuples(st.just("named"), st.sampled_from(PdsSource)),
)


def after(row: PdsRow, event: tuple[str, object], now: float) -> PdsRow:
    word, value = event
    if word == "named":
        assert isinstance(value, PdsSource)
        found = FoundPds(row.pds_url, value)
        return revived(row, found, now) if is_revived(row, found, now) else row
    held = replace(row, status=PdsStatus.SCANNING, lease_owner="me", lease_until=now + 60)
    if word == "completed":
        assert isinstance(value, int)
        return after_completed(held, ScanEnded(value, value), now)
    if word == "failed":
        return after_failed(held, str(value), Reason.TIMEOUT, now)
    assert isinstance(value, float)
    if word == "partial":
        return after_partial(held, value, now)
    return after_put_off(held, Reason.RATE_LIMITED, value, now)


@given(st.lists(events, max_size=30))
def test_a_row_at_rest_is_always_due_some_day_and_tells_the_truth(
    series: list[tuple[str, object]],
) -> None:
    row, now, failures, found = FRESH, NOW, 0, None
    for event in series:
        now = max(now, row.next_scan_at or now) + 1.0
        row = after(row, event, now)
        word, value = event
        if word == "completed":
            found = value
        if word in ("completed", "partial"):
            failures = 0
        failures += word == "failed"
        # Nobody is forgotten: it is due within a month, and nobody holds it.
        assert row.lease_owner is None and row.status is not PdsStatus.SCANNING
        assert row.next_scan_at is None or row.next_scan_at <= now + 30 * DAY
        assert row.chive_record_count == (found or 0)
        assert row.has_chive_records is (None if found is None else found != 0)
        if row.status is PdsStatus.UNREACHABLE:
            assert row.consecutive_failures >= GIVE_UP_AT
        if word == "failed":
            assert row.next_scan_at == now + backoff(row.consecutive_failures - 1)
            assert row.last_error
            # A user's word begins a new series, so there may be fewer, never more.
            assert row.consecutive_failures <= failures


@given(st.integers(0, 100))
def test_back_off_doubles_up_to_sixteen_hours_and_then_is_a_month(failures: int) -> None:
    expected = 30 * DAY if failures >= GIVE_UP_AT else HOUR * 2**failures
    assert backoff(failures) == expected
