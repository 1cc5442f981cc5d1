"""What a registry row is, and every decision about one as a pure function of it and the time."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from trawlnet.engine.outcome import Reason

HOUR = 3600.0
DAY = 24 * HOUR

# Lower goes first. A unit of priority equals this much waiting: a PDS that is due for long enough
# comes before a more important one, so that none waits for ever.
HIGH, MEDIUM, LOW = 10, 50, 200
WORTH = 360.0

RESCAN_WITH_RECORDS = DAY
RESCAN_WITHOUT_RECORDS = 7 * DAY
RESCAN_UNREACHABLE = 30 * DAY
GIVE_UP_AT = 5  # Failures in a row.
_LONGEST_BACKOFF_EXPONENT = 4  # 1, 2, 4, 8, 16 hours.
REVIVE_AFTER = DAY  # Strangers who mention a server do not make us ask it more often than this.
_LONGEST_ERROR = 300  # Characters.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+"
)


class PdsStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    SCANNING = "scanning"
    UNREACHABLE = "unreachable"
    NO_CHIVE_RECORDS = "no_chive_records"


class PdsSource(StrEnum):
    """The source of a PDS."""

    PLC = "plc_enumeration"
    RELAY = "relay_listhosts"
    USER = "user_registration"
    DID = "did_mention"
    UNKNOWN = "unknown"  # A word in the table that this program does not know.


class EntryVerdict(StrEnum):
    """The result of entering a PDS."""

    NEW = "new"
    KNOWN = "known"
    REVIVED = "revived"  # Known, given up or postponed, and due again now.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Registered:
    verdict: EntryVerdict
    url: str  # Canonical origin; empty when there is none.
    reason: str = ""  # Why it was refused: out of a closed set.


@dataclass(frozen=True, slots=True)
class FoundPds:
    """A found PDS."""

    url: str  # As it was written.
    source: PdsSource
    accounts: int | None = None  # As a relay counts them.
    connected: bool | None = None  # Whether a relay reads from it; None: nobody said.
    # Whether this is news. Listing what was listed before revives nobody.
    is_news: bool = True


@dataclass(frozen=True, slots=True)
class Which:
    """Of the rows that are due."""

    skip_connected: bool = False  # Not those that a relay reads from anyway.
    # Whether their last scan was cut short; None takes both kinds.
    begun: bool | None = None
    # For whom: what was scanned whole for another scope is due for this one. Empty: for anybody.
    scope: str = ""


ANY = Which()


@dataclass(frozen=True, slots=True)
class ScanEnded:
    """What a complete scan came to."""

    found: int  # Records that the PDS has now, from all scans.
    indexed: int = 0
    scope: str = ""  # What was looked for; empty: everything there is to look for.
    has_wanted: bool | None = None  # Whether it holds what was looked for; None: as `found` says.
    error: str = ""  # What went wrong with a part of it.


@dataclass(frozen=True, slots=True)
class Ban:
    """A host, or a domain with all below it, that is neither registered nor asked."""

    name: str
    reason: str
    banned_at: float


@dataclass(frozen=True, slots=True)
class PdsRow:
    """Instants are Unix seconds."""

    pds_url: str
    discovered_at: float
    discovery_source: PdsSource
    status: PdsStatus
    last_scan_at: float | None  # The end of the last complete scan.
    next_scan_at: float | None  # None: at the next opportunity.
    has_chive_records: bool | None  # None: no complete scan yet.
    chive_record_count: int  # Records that are held of it, whatever became of them.
    consecutive_failures: int
    scan_priority: int
    last_error: str | None
    is_relay_connected: bool
    account_count: int | None
    indexed_record_count: int
    last_try_at: float | None  # The end of the last scan of any kind.
    last_reason: Reason | None
    updated_at: float
    lease_owner: str | None
    lease_until: float | None

    @property
    def order(self) -> float:
        """Of those that are due, the lowest goes first."""
        return scan_order(self.next_scan_at or self.discovered_at, self.scan_priority)


def scan_order(due: float, priority: int) -> float:
    return due + priority * WORTH


def after_completed(row: PdsRow, ended: ScanEnded, now: float) -> PdsRow:
    found = ended.found
    has_wanted = found > 0 if ended.has_wanted is None else ended.has_wanted
    again = RESCAN_WITH_RECORDS if has_wanted else RESCAN_WITHOUT_RECORDS
    return replace(
        _rested(row, Reason.OK, now),
        status=PdsStatus.ACTIVE if found else PdsStatus.NO_CHIVE_RECORDS,
        last_scan_at=now,
        next_scan_at=now + again,
        has_chive_records=found > 0,
        chive_record_count=found,
        indexed_record_count=ended.indexed,
        consecutive_failures=0,
        scan_priority=HIGH if has_wanted else LOW,
        last_error=clean(ended.error) or None,
    )


def after_partial(row: PdsRow, again_in: float, now: float, error: str = "") -> PdsRow:
    """It answered, and there is more to ask: nothing is concluded."""
    well = replace(row, consecutive_failures=0, last_error=clean(error) or None)
    return replace(_rested(well, Reason.OK, now), next_scan_at=now + again_in)


def after_put_off(row: PdsRow, reason: Reason, again_in: float, now: float) -> PdsRow:
    """It asked us to wait, or the trouble is ours: no failure of its."""
    return replace(_rested(row, reason, now), next_scan_at=now + again_in)


def after_failed(
    row: PdsRow, error: str, reason: Reason, now: float, again_in: float | None = None
) -> PdsRow:
    """`again_in`: seconds that are waited at least."""
    before = row.consecutive_failures
    given_up = before + 1 >= GIVE_UP_AT
    rested = _rested(row, reason, now)
    return replace(
        rested,
        status=PdsStatus.UNREACHABLE if given_up else rested.status,
        next_scan_at=now + max(backoff(before), again_in or 0.0),
        consecutive_failures=before + 1,
        scan_priority=LOW if given_up else row.scan_priority,
        last_error=clean(error) or str(reason),
    )


def backoff(failures_before: int) -> float:
    """Seconds until the next try. The fifth failure makes a row unreachable and still waits the
    16 hours; who fails then as well is asked once a month."""
    if failures_before >= GIVE_UP_AT:
        return RESCAN_UNREACHABLE
    return HOUR * 2.0 ** min(failures_before, _LONGEST_BACKOFF_EXPONENT)


def is_revived(row: PdsRow, found: FoundPds, now: float) -> bool:
    """Whether finding a known PDS again makes it due now."""
    if row.status not in (PdsStatus.UNREACHABLE, PdsStatus.NO_CHIVE_RECORDS):
        return False
    if found.source is PdsSource.USER:
        return True
    return found.is_news and (row.last_try_at or 0.0) <= now - REVIVE_AFTER


def revived(row: PdsRow, found: FoundPds, now: float) -> PdsRow:
    """A mention earns one try, and the word of a user a whole new series."""
    spared = 0 if found.source is PdsSource.USER else min(row.consecutive_failures, GIVE_UP_AT)
    return replace(
        row,
        status=PdsStatus.PENDING,
        next_scan_at=now,
        consecutive_failures=spared,
        scan_priority=MEDIUM,
    )


def clean(text: str) -> str:
    """A stranger's words on one line, without anything that a terminal would act on."""
    return " ".join(_UNPRINTABLE.sub(" ", text).split())[:_LONGEST_ERROR]


def _rested(row: PdsRow, reason: Reason, now: float) -> PdsRow:
    """No longer being scanned: as the last complete scan left it."""
    return replace(
        row,
        status=resting_status(row),
        last_try_at=now,
        last_reason=reason,
        updated_at=now,
        lease_owner=None,
        lease_until=None,
    )


def as_shown(row: PdsRow, now: float) -> PdsRow:
    """Whose claim has run out is being scanned by nobody."""
    if row.status is not PdsStatus.SCANNING or (row.lease_until or 0.0) > now:
        return row
    return replace(row, status=resting_status(row))


def resting_status(row: PdsRow) -> PdsStatus:
    if row.consecutive_failures >= GIVE_UP_AT:
        return PdsStatus.UNREACHABLE
    if row.last_scan_at is None:
        return PdsStatus.PENDING
    return PdsStatus.ACTIVE if row.has_chive_records else PdsStatus.NO_CHIVE_RECORDS
