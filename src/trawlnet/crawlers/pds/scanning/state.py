"""What one scan carries along, and how its state is kept safe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trawlnet.crawlers.pds.records.routing import Fate, Routed
from trawlnet.crawlers.pds.scanning.asking import ScanClient, Stopped
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanParts, ScanVerdict
from trawlnet.engine.outcome import Outcome
from trawlnet.tables.scanned.rows import RepoReading, ScanKey, ScannedRecord, WalkProgress

_RECORDS_AT_ONCE = 100  # In one commit, or somewhat more.


@dataclass(slots=True)
class Scan:
    parts: ScanParts
    key: ScanKey
    asker: ScanClient
    names: tuple[str, ...]  # Wanted collections whose names are known beforehand.
    progress: WalkProgress = field(default_factory=WalkProgress)
    tally: ScanCounts = field(default_factory=ScanCounts)
    # Repos that had nothing for us. Losing these to a crash costs a request each, and saving
    # each by itself would cost a sync of the disk.
    done: list[RepoReading] = field(default_factory=list)
    # Records of the repo under way, and where its reading goes on behind them: small pages share
    # a commit, for the same reason.
    unsaved: list[ScannedRecord] = field(default_factory=list)
    under_way: RepoReading | None = None
    lookups: int = 0
    read: int = 0  # Repos.
    own: int = 0  # Repos with records that live here.
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

    async def save(self) -> None:
        await self.flush()
        await self.parts.tables.save(self.key, self.progress, self.take_done(), self.now)

    def take_done(self) -> list[RepoReading]:
        done, self.done = self.done, []
        return done

    async def keep(self, records: list[ScannedRecord], after: RepoReading) -> None:
        """A page of the repo under way; the last one ends its reading."""
        self.unsaved += records
        self.under_way = after
        if not after.todo:
            await self.parts.tables.end_reading(self.key, self.unsaved, after, self.now)
            self._forget_page()
        elif len(self.unsaved) >= _RECORDS_AT_ONCE:
            await self.flush()

    async def flush(self) -> None:
        if self.under_way is not None:
            await self.parts.tables.put_records(self.key, self.unsaved, self.under_way, self.now)
            self._forget_page()

    def _forget_page(self) -> None:
        self.unsaved, self.under_way = [], None

    async def nothing_there(self, reading: RepoReading) -> None:
        """A repo without anything for us; what it may have had before is gone."""
        self.read += 1
        self.broken_in_row = 0
        self._forget_page()
        if reading.is_held:
            # A number above all, so that what this very reading saw is withdrawn, too. What it
            # did not look at may still be there.
            number, is_held = reading.number + 1, reading.by_names
            empty = replace(reading, number=number, todo=(), is_held=is_held, is_flawed=False)
            await self.parts.tables.end_reading(self.key, (), empty, self.now)
        else:
            self.done.append(reading)

    async def broken(self, reading: RepoReading, outcome: Outcome) -> None:
        """A repo that could not be read is asked again by the next walk. Raises Stopped when so
        many came in a row that it is the server that is unwell."""
        await self.flush()
        self.done.append(replace(reading, trouble=str(outcome.reason)))
        self.broken_in_row += 1
        if self.broken_in_row >= self.parts.limits.broken_repos:
            raise Stopped(ScanVerdict.FAILED, outcome.reason, outcome.detail)

    def count(self, collection: str, routed: list[Routed], forged: int) -> list[ScannedRecord]:
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

    def index_took(self, collection: str, seconds: float) -> None:
        if self.parts.meter is not None:
            self.parts.meter.index_took(self.parts.routes.label(collection), seconds)
