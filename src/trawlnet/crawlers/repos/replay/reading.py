"""One segment as batches of rows; what is damaged is noted, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from trawlnet.archive.blocks import DamagedBytes, File, FoundBlock
from trawlnet.archive.census import Census
from trawlnet.archive.changes.states import folded_repos
from trawlnet.archive.format.rca import CollectionEntry, Form, RcaError
from trawlnet.archive.reader import Damage, Segment, read_collection
from trawlnet.crawlers.repos.replay.unpack import unpack
from trawlnet.tables.clickhouse.native import TextPairs
from trawlnet.tables.clickhouse.records import RecordBatch, RepoRow

_ROWS = 200_000  # In one batch.
_BYTES = 64 << 20  # Of one batch, about.
_MOST_DAMAGE = 1000  # Places of a segment that are told one by one.


@dataclass(frozen=True, slots=True)
class CollectionFilter:
    """Which collections are wanted; all when there is no glob."""

    globs: Sequence[str] = ()

    def wants(self, collection: str) -> bool:
        return not self.globs or any(fnmatchcase(collection, glob) for glob in self.globs)

    def __str__(self) -> str:
        return " ".join(sorted(self.globs))


@dataclass(slots=True)
class SegmentReader:
    segment: Segment
    dead: frozenset[int]  # Offsets of blocks that do not count.
    wanted: CollectionFilter
    progress: Callable[[int], None]
    damage: list[Damage] = field(default_factory=list)
    untold: int = 0  # Damaged places beyond those that are listed.

    def batches(self) -> Generator[RecordBatch, None, None]:
        """Blocking; a large repository may be spread over several batches."""
        batch = RecordBatch()
        with self.segment.open() as fd:
            for block in self._sound_blocks(fd):
                self.progress(block.head.size)
                if block.offset in self.dead or block.head.form is Form.DELTA:
                    continue
                repo = _repo(block)
                batch.repos.append(repo)
                for collection in block.head.collections:
                    if not self.wanted.wants(collection.name):
                        continue
                    for piece in self._pieces(fd, block, collection):
                        batch.add(repo, collection.name, piece)
                        if batch.rows >= _ROWS or batch.size >= _BYTES:
                            yield batch
                            batch = RecordBatch()
        self.progress(self.segment.size - self.segment.blocks_end)
        if batch.repos or batch.rows:
            yield batch

    def _sound_blocks(self, fd: File) -> Iterator[FoundBlock]:
        last: DamagedBytes | None = None
        for found in self.segment.blocks(fd, check=True):
            if last is not None:
                self._found(last.place, last.what)
            last = found if isinstance(found, DamagedBytes) else None
            if isinstance(found, FoundBlock):
                yield found
        # The end of a segment that is still being written may be torn: that is no damage.
        if last is not None and self.segment.finalised:
            self._found(last.place, last.what)

    def _pieces(
        self, fd: File, block: FoundBlock, collection: CollectionEntry
    ) -> Iterator[TextPairs]:
        try:
            yield from unpack(read_collection(fd, block, collection), collection.records)
        except RcaError as error:
            self._found(block.offset + collection.start, f"{collection.name}: {error.what}")

    def _found(self, offset: int, what: str) -> None:
        if len(self.damage) < _MOST_DAMAGE:
            self.damage.append(Damage(self.segment.path, offset, what))
        else:
            self.untold += 1


def folded_batches(
    census: Census, wanted: CollectionFilter, damage: list[Damage]
) -> Generator[RecordBatch, None, None]:
    """Blocking: the repositories that deltas have changed, each as it is now."""
    batch = RecordBatch()
    for one in folded_repos(census):
        if isinstance(one, Damage):
            damage.append(one)
            continue
        damage += one.damage
        repo = _repo(one.block)
        batch.repos.append(repo)
        with one.open() as fd:
            for collection in one.block.head.collections:
                if not wanted.wants(collection.name):
                    continue
                entries = read_collection(fd, one.block, collection)
                for piece in unpack(entries, collection.records):
                    batch.add(repo, collection.name, piece)
        if batch.rows >= _ROWS or batch.size >= _BYTES:
            yield batch
            batch = RecordBatch()
    if batch.repos:
        yield batch


def _repo(block: FoundBlock) -> RepoRow:
    head = block.head
    count = sum(collection.records for collection in head.collections)
    return RepoRow(head.did, head.pds, head.rev, count, head.crawled_at_us)
