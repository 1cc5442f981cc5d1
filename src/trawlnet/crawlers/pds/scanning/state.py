"""What one scan carries along from step to step, and what of it is to be written."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trawlnet.crawlers.pds.records.routing import Fate, RoutedRecord
from trawlnet.crawlers.pds.scanning.asking import ScanClient
from trawlnet.crawlers.pds.scanning.ending import Halt, SliceEnd, failed
from trawlnet.crawlers.pds.scanning.items import ReadingEnded, RecordsRead, ScanItem
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanParts
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.tables.scanned.rows import (
    Held,
    RepoReading,
    ScanKey,
    ScannedRecord,
    StoredListing,
    WalkProgress,
)

_RECORDS_AT_ONCE = 100  # In one commit, or somewhat more.
_WELL: Outcome = Outcome(Reason.OK)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step came to."""

    items: Sequence[ScanItem] = ()  # To be written before the next step.
    end: SliceEnd | None = None  # The slice ends here.
    outcome: Outcome = _WELL  # What the server did.
    is_tried_again: bool = False


def halted(halt: Halt) -> StepResult:
    if isinstance(halt, SliceEnd):
        return StepResult(end=halt)
    return StepResult(outcome=halt.outcome, is_tried_again=True)


@dataclass(slots=True)
class OpenReading:
    """The repo that is read now, as far as this scan has come with it."""

    reading: RepoReading
    is_resident: bool = False  # Its DID document was looked at.
    seen: set[str] = field(default_factory=set)  # Record keys of the collection; a cap bounds it.
    good: int = 0
    bad: int = 0


@dataclass(slots=True)
class FreshPage:
    """A page of the listing that was just stored."""

    before: WalkProgress
    stored: StoredListing
    idle: Sequence[str]  # Accounts of it that are switched off: nothing of them is to be read.
    is_checked: bool = False


@dataclass(slots=True)
class Scan:
    parts: ScanParts
    key: ScanKey
    client: ScanClient
    names: tuple[str, ...]  # Wanted collections whose names are known beforehand.
    account: str = ""  # The one DID that is scanned; empty: all that are listed.
    afresh: bool = True  # Whether its document is asked for, though we may remember it.
    progress: WalkProgress = field(default_factory=WalkProgress)
    tally: ScanCounts = field(default_factory=ScanCounts)
    fresh: FreshPage | None = None
    leads_pages: int = 0
    queue: deque[RepoReading] = field(default_factory=deque)  # To be read next.
    has_pending: bool = False  # There may be more of them in the tables.
    open: OpenReading | None = None
    # Repos that had nothing for us. Losing these to a crash costs a request each, and saving
    # each by itself would cost a sync of the disk.
    done: list[RepoReading] = field(default_factory=list)
    # Records of the repo under way, and where its reading goes on behind them: small pages share
    # a commit, for the same reason.
    unsaved: list[ScannedRecord] = field(default_factory=list)
    under_way: RepoReading | None = None
    indexing: tuple[str, float] | None = None  # A collection, since when its page is taken in.
    is_over: bool = False  # The walk has come to its end, and all of it is written.
    held: Held | None = None  # What there is then.
    lookups: int = 0
    read: int = 0  # Repos.
    own: int = 0  # What is known to live here: repos with records, or records of an earlier scan.
    strangers: int = 0  # Repos with records that live elsewhere.
    broken_in_row: int = 0
    described: int = 0  # Repos.
    not_described: int = 0  # As if the server did not know the method.
    lacks_describe: bool = False

    @property
    def pds(self) -> str:
        return self.key.pds_url

    @property
    def now(self) -> float:
        return self.parts.clock.now()

    def take_done(self) -> list[RepoReading]:
        done, self.done = self.done, []
        return done

    def keep(self, records: list[ScannedRecord], after: RepoReading) -> Sequence[ScanItem]:
        """A page of the repo under way; the last one ends its reading."""
        self.unsaved += records
        self.under_way = after
        if not after.todo:
            ended = ReadingEnded(self.unsaved, after)
            self._forget_page()
            return [ended]
        return self.unwritten() if len(self.unsaved) >= _RECORDS_AT_ONCE else ()

    def unwritten(self) -> Sequence[ScanItem]:
        """What was read and is not written yet; from now on it counts as written."""
        if self.under_way is None:
            return ()
        read = RecordsRead(self.unsaved, self.under_way)
        self._forget_page()
        return [read]

    def _forget_page(self) -> None:
        self.unsaved, self.under_way = [], None

    def nothing_there(self, reading: RepoReading) -> Sequence[ScanItem]:
        """A repo without anything for us; what it may have had before is gone."""
        self.read += 1
        self.broken_in_row = 0
        self.open = None
        self._forget_page()
        if not reading.is_held:
            self.done.append(reading)
            return ()
        # A number above all, so that what this very reading saw is withdrawn, too. What it did not
        # look at may still be there.
        number, is_held = reading.number + 1, reading.by_names
        empty = replace(reading, number=number, todo=(), is_held=is_held, is_flawed=False)
        return [ReadingEnded((), empty)]

    def broken(self, reading: RepoReading, outcome: Outcome) -> StepResult:
        """A repo that could not be read is asked again by the next walk. When so many came in a row
        it is the server that is unwell."""
        items = self.unwritten()
        self.open = None
        self.done.append(replace(reading, trouble=str(outcome.reason)))
        self.broken_in_row += 1
        is_unwell = self.broken_in_row >= self.parts.limits.broken_repos
        end = failed(outcome.reason, outcome.detail) if is_unwell else None
        return StepResult(items, end, outcome)

    def count(
        self, collection: str, routed: list[RoutedRecord], forged: int
    ) -> list[ScannedRecord]:
        tally, fates = self.tally, [one.fate for one in routed]
        figures = {
            Fate.INDEXED: fates.count(Fate.INDEXED),
            Fate.SKIPPED: fates.count(Fate.SKIPPED),
            Fate.FAILED: fates.count(Fate.FAILED) + forged,
        }
        label = self.parts.routes.label(collection)
        # Strangers name collections: without bounds on names there would be none on the tally.
        tally.found += Counter({label: sum(figures.values())})
        tally.indexed += Counter({label: figures[Fate.INDEXED]})
        tally.skipped += Counter({label: figures[Fate.SKIPPED]})
        tally.failed += Counter({label: figures[Fate.FAILED]})
        self._meter(label, figures)
        return [one.record for one in routed]

    def _meter(self, label: str, figures: Mapping[Fate, int]) -> None:
        meter = self.parts.meter
        if meter is None:
            return
        meter.records_scanned(label, sum(figures.values()))
        for fate, count in figures.items():
            meter.records_indexed(label, fate, count)
