"""Reads an archive of repositories: each repository once, and its records."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from trawlnet.archive.blocks import DamagedBytes, FoundBlock
from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.changes.states import FoldedRepo, folded_repos
from trawlnet.archive.format.rca import Form
from trawlnet.archive.lookup import look_up
from trawlnet.archive.lookup import records as records_of
from trawlnet.archive.reader import Damage, Place, Segment, check_versions, find_segments
from trawlnet.archive.remote import remote
from trawlnet.archive.tally import open_all
from trawlnet.reading.arrow import pyarrow, reader_of
from trawlnet.storage.s3 import SCHEME, s3_options

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader

_EPOCH = datetime.fromtimestamp(0, UTC)


class DamagedArchive(UserWarning):
    """Damaged bytes of an archive; the repositories in them are missing from the results."""


@dataclass(frozen=True, slots=True)
class ArchivedRepo:
    """A repository of an archive as of its last visit, without its records."""

    did: str
    pds: str
    rev: str
    crawled_at: datetime  # UTC.
    collections: Mapping[str, int]  # How many records each has.


class ArchivedRecord(NamedTuple):
    """One record of an archived repository."""

    did: str
    collection: str
    rkey: str
    json: bytes

    @property
    def value(self) -> Any:
        """The record as Python objects; parsed on each access."""
        return orjson.loads(self.json)


class Archive:
    """Each repository once, with its latest block, unless a tombstone covers it. Each method reads
    the archive anew, so that a crawl may be writing to it."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def repos(self) -> Iterator[ArchivedRepo]:
        """All repositories in the order of writing; records are not unpacked."""
        for _, block in self._blocks(check=False):
            head = block.head
            counts = {collection.name: collection.records for collection in head.collections}
            at = _EPOCH + timedelta(microseconds=head.crawled_at_us)
            yield ArchivedRepo(head.did, head.pds, head.rev, at, counts)

    def records(self, *collections: str, did: str = "") -> Iterator[ArchivedRecord]:
        """The records of the collections that match these patterns (`app.bsky.feed.*`), or all.
        The index finds those of one DID in milliseconds."""
        for segment, block in self._block_of(did) if did else self._blocks(check=True):
            for found in records_of(segment, block, lambda name: _wanted(name, collections)):
                if isinstance(found, Damage):
                    _warn(found)
                else:
                    yield ArchivedRecord(block.head.did, *found)

    def to_arrow(self, *collections: str, did: str = "") -> RecordBatchReader:
        """The records as batches with the columns `did`, `collection`, `rkey` and `json`."""
        text = pyarrow().string()
        columns = [(name, text) for name in ArchivedRecord._fields]
        return reader_of(columns, self.records(*collections, did=did))

    def _block_of(self, did: str) -> Iterator[tuple[Segment | FoldedRepo, FoundBlock]]:
        found = look_up(self._place, did)
        for damage in found.damage:
            _warn(damage)
        if found.segment and found.block and found.tombstone is None:
            yield found.segment, found.block

    def _blocks(self, *, check: bool) -> Iterator[tuple[Segment | FoldedRepo, FoundBlock]]:
        damage: list[Damage] = []
        segments = open_all(find_segments(self._place), damage)
        census = take_census(segments, load_tombstones(self._place))
        for one in (*damage, *census.damage, *census.broken):
            _warn(one)
        for segment in segments:
            aside = census.aside(segment.path)
            for block in _sound(segment, check):
                if block.head.form is Form.DELTA:
                    for one in census.orphaned(segment.path, block.offset):
                        _warn(one)
                elif block.offset not in aside:
                    yield segment, block
        for repo in folded_repos(census):
            if isinstance(repo, Damage):
                _warn(repo)
                continue
            for one in repo.damage:
                _warn(one)
            yield repo, repo.block


def open_archive(place: str | Path) -> Archive:
    """A folder of segments, one segment, or `s3://BUCKET/FOLDER`, whose address and keys are in
    the same variables as for the commands. Raises NoArchive if there is none, and UnknownFormat if
    a newer version of trawlnet wrote one of the segments."""
    text = str(place)
    where = remote(text, s3_options(os.environ)) if text.startswith(SCHEME) else Path(place)
    find_segments(where)
    if isinstance(where, Path):
        check_versions(where)
    return Archive(where)


def _sound(segment: Segment, check: bool) -> Iterator[FoundBlock]:
    last: DamagedBytes | None = None
    with segment.open() as fd:
        for found in segment.blocks(fd, check=check):
            if last is not None:
                _warn(Damage(segment.path, last.place, last.what))
            last = found if isinstance(found, DamagedBytes) else None
            if isinstance(found, FoundBlock):
                yield found
    # The end of a segment that a crawl is writing may be incomplete: that is no damage.
    if last is not None and segment.finalised:
        _warn(Damage(segment.path, last.place, last.what))


def _wanted(collection: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(collection, pattern) for pattern in patterns)


def _warn(damage: Damage) -> None:
    warnings.warn(DamagedArchive(str(damage)), stacklevel=3)
