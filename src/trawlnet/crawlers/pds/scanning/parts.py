"""What a scan is given, how it is bounded, and what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.pds.config import TRIES
from trawlnet.crawlers.pds.records.routing import Routes
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.tables.scanned.scanned import Scanned

RECORDS_AT_ONCE = 100  # In a page of records.


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """The bounds of one scan. What they cut off, the next scan goes on with."""

    records: int = 1000  # Records read in one scan (max_records_per_pds).
    request_seconds: float = 20.0  # Waiting for one answer.
    page_bytes: int = 5 << 20  # One page, on the wire and inflated.
    tries: int = TRIES  # Of one step.
    broken_repos: int = 3  # In a row, after which the server itself counts as unwell.
    strangers: int = 5  # Repos with records that all live elsewhere: this is no PDS.
    listing_pages: int = 50_000  # The largest PDS known needs 22,000.
    # Of one collection of one repo, in all scans of one reading. As many pages have one each.
    account_records: int = 1_000_000
    full_every: int = 10  # Each so-manyth walk reads every repo again, whatever its rev says.


class ScanMeter(Protocol):
    """Collections come as bounded labels: names that we know, or `other`."""

    def scan_ended(self, status: str, seconds: float) -> None: ...

    def records_scanned(self, collection: str, count: int) -> None: ...

    def records_indexed(self, collection: str, status: str, count: int) -> None:
        """Status: success, error or skipped."""

    def index_took(self, collection: str, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class ScanParts:
    http: Getter  # Paced by the gate: requests per minute are its business.
    gate: Gate
    identities: Identities
    tables: Scanned
    routes: Routes  # Which collections are wanted, how each is checked, and where it goes.
    clock: Clock
    limits: ScanLimits = ScanLimits()
    meter: ScanMeter | None = None
    allow_private: bool = False


class ScanVerdict(StrEnum):
    """What a scan means for its PDS: one call of the registry each."""

    COMPLETE = "complete"  # Walked to the end: `held` is what there is.
    PARTIAL = "partial"  # It answers, and there is more to ask: nothing is concluded.
    PUT_OFF = "put_off"  # It asked us to wait, or the trouble is elsewhere: no failure of its.
    FAILED = "failed"


@dataclass(slots=True)
class ScanCounts:
    """Records of this scan, by collection. Every record found is exactly one of the other three."""

    found: Counter[str] = field(default_factory=Counter)
    indexed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: ScanCounts) -> ScanCounts:
        return ScanCounts(
            self.found + other.found,
            self.indexed + other.indexed,
            self.skipped + other.skipped,
            self.failed + other.failed,
        )


@dataclass(frozen=True, slots=True)
class ScanResult:
    """A scan that continues another, or finds nothing changed, has found little by itself: what a
    PDS has is in `held`, and that is what a registry should note."""

    verdict: ScanVerdict
    reason: Reason
    detail: str
    again_in: float | None  # Seconds; for partial and put off.
    tally: ScanCounts
    requests: int  # To the PDS.
    lookups: int  # DIDs that had to be resolved.
    repos: int  # Repos read in this scan.
    held: Mapping[str, int]  # Live records of the PDS that were looked for, after this scan.
    indexed_held: int  # How many of them are indexed.
    left: int = 0  # Repos that are listed and still to be read.
    scope: str = ""  # What was looked for, as a digest.
    # The same of all that the tables have of the PDS, also what others look for.
    all_held: int = 0
    all_indexed: int = 0
    error: str = ""  # What went wrong with a part of it, for the registry.

    @property
    def complete(self) -> bool:
        return self.verdict is ScanVerdict.COMPLETE

    @property
    def found(self) -> int:
        return self.tally.found.total()

    @property
    def indexed(self) -> int:
        return self.tally.indexed.total()

    @property
    def skipped(self) -> int:
        return self.tally.skipped.total()

    @property
    def failed(self) -> int:
        return self.tally.failed.total()

    @property
    def held_total(self) -> int:
        return sum(self.held.values())
