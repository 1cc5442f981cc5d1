"""What a step of a scan leaves to be written: plain values, each one transaction of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trawlnet.tables.scanned.rows import ListedRepo, RepoReading, ScannedRecord, WalkProgress


@dataclass(frozen=True, slots=True)
class PageListed:
    """A page of the listing, and the walk behind it."""

    repos: Sequence[ListedRepo]
    progress: WalkProgress
    done: Sequence[RepoReading]


@dataclass(frozen=True, slots=True)
class LeadsListed:
    """Who has a collection, and the walk behind that."""

    collection: str
    dids: Sequence[str]
    progress: WalkProgress


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """Records of a repo, and where its reading goes on."""

    records: Sequence[ScannedRecord]
    reading: RepoReading


@dataclass(frozen=True, slots=True)
class ReadingEnded:
    """The last records of a repo: what its reading did not meet is gone, unless it was flawed."""

    records: Sequence[ScannedRecord]
    reading: RepoReading


@dataclass(frozen=True, slots=True)
class WalkSaved:
    """How far a walk has come, and the repos that had nothing for us."""

    progress: WalkProgress
    done: Sequence[RepoReading]


@dataclass(frozen=True, slots=True)
class ReadingsDone:
    """Repos that had nothing for us, or could not be read, outside a walk."""

    done: Sequence[RepoReading]


ScanItem = PageListed | LeadsListed | RecordsRead | ReadingEnded | WalkSaved | ReadingsDone
