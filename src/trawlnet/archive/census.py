"""Which blocks of an archive count: the latest of each DID and what leads on from it, unless a
tombstone covers them."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from trawlnet.archive.changes.lineage import (
    ORPHAN,
    BlockFacts,
    Lineage,
    Version,
    facts_of,
    lineage,
)
from trawlnet.archive.entries import BlockEntry
from trawlnet.archive.format import rca
from trawlnet.archive.reader import Damage, Place, Segment, read_entry
from trawlnet.archive.tombstones import Tombstone, read_tombstones

_BROKEN = 1000  # So many are told one by one.


class BlockPlace(NamedTuple):
    segment: Segment
    offset: int


class ChangedRepos:
    """Repositories with deltas: where their full blocks are, and the deltas that lead on from each.
    A block takes 12 bytes, a repository 8 more."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._numbers = array("I")  # Of segments, one for each block,
        self._offsets = array("q")
        self._ends = array("q")  # and where the blocks of each repository end among them.

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def deltas(self) -> int:
        return len(self._offsets) - len(self._ends)

    def add(self, versions: Sequence[Version]) -> None:
        self._numbers.extend(version.segment for version in versions)
        self._offsets.extend(version.offset for version in versions)
        self._ends.append(len(self._offsets))

    def __iter__(self) -> Iterator[list[BlockPlace]]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> list[BlockPlace]:
        """The full block first."""
        start = self._ends[number - 1] if number else 0
        return [
            BlockPlace(self._segments[self._numbers[at]], self._offsets[at])
            for at in range(start, self._ends[number])
        ]

    def by_segment(self) -> dict[Place, array[int]]:
        """Which of them have their full block in which segment."""
        found: dict[Place, array[int]] = {}
        start = 0
        for number, end in enumerate(self._ends):
            path = self._segments[self._numbers[start]].path
            found.setdefault(path, array("q")).append(number)
            start = end
        return found


@dataclass(frozen=True, slots=True)
class Census:
    """The blocks that do not count, by segment, their offsets in order. They take 8 bytes each;
    the others take nothing."""

    superseded: Mapping[Place, array[int]]
    tombstoned: Mapping[Place, array[int]]
    changed: ChangedRepos
    folded: Mapping[Place, array[int]]  # Full blocks that deltas have changed,
    deltas: Mapping[Place, array[int]]  # and those deltas.
    loose: Mapping[Place, array[int]]  # Deltas that lead on from nothing that is there,
    broken: Sequence[Damage] = ()  # and why, of the first of them.
    damage: Sequence[Damage] = ()

    def dead(self, path: Place) -> frozenset[int]:
        return frozenset(self.superseded.get(path, ())) | frozenset(self.tombstoned.get(path, ()))

    def aside(self, path: Place) -> frozenset[int]:
        """Full blocks that do not count by themselves, and all that are dead. Deltas never count by
        themselves."""
        return self.dead(path) | frozenset(self.folded.get(path, ()))

    def orphaned(self, path: Place, offset: int) -> list[Damage]:
        """What is wrong with a delta of whose DID nothing else is there; of any other, nothing."""
        rows = (self.deltas, self.superseded, self.tombstoned, self.loose)
        if any(_holds(row.get(path, ()), offset) for row in rows):
            return []
        return [Damage(path, offset, ORPHAN)]


@dataclass(slots=True)
class _Taking:
    segments: Sequence[Segment]
    check: bool
    changed: ChangedRepos
    superseded: dict[Place, array[int]] = field(default_factory=dict)
    tombstoned: dict[Place, array[int]] = field(default_factory=dict)
    folded: dict[Place, array[int]] = field(default_factory=dict)
    deltas: dict[Place, array[int]] = field(default_factory=dict)
    loose: dict[Place, array[int]] = field(default_factory=dict)
    broken: list[Damage] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)

    def note(self, did: str, found: Lineage) -> None:
        for rows, blocks in (
            (self.superseded, found.superseded),
            (self.tombstoned, found.tombstoned),
            (self.folded, [found.full] if found.full and found.deltas else []),
            (self.deltas, found.deltas),
            (self.loose, found.broken),
        ):
            for one in blocks:
                path = self.segments[one.version.segment].path
                rows.setdefault(path, array("q")).append(one.version.offset)
        if found.full and found.deltas:
            self.changed.add([one.version for one in (found.full, *found.deltas)])
        for one in found.broken[: _BROKEN - len(self.broken)]:
            path = self.segments[one.version.segment].path
            self.broken.append(Damage(path, one.version.offset, f"{did}: {found.why(one)}"))


def load_tombstones(place: Place) -> dict[str, Tombstone]:
    """The latest of each DID, from the folder of the segments. All are held in memory."""
    stones: dict[str, Tombstone] = {}
    for stone in read_tombstones(place):
        before = stones.get(stone.did)
        if before is None or before.at_us <= stone.at_us:
            stones[stone.did] = stone
    return stones


def take_census(
    segments: Sequence[Segment], stones: Mapping[str, Tombstone], *, check: bool = False
) -> Census:
    """Merge the indexes, which are sorted, and look closer only at what occurs twice.

    With `check` a block supersedes others only if every byte of it is sound.
    """
    taking = _Taking(segments, check, ChangedRepos(segments))
    merged = heapq.merge(*(_numbered(taking, n) for n in range(len(segments))))
    for did, group in groupby(merged, key=lambda pair: pair[0]):
        places = [(segment, entry) for _, segment, _, entry in group]
        name = did.decode("utf-8", "replace")
        stone = stones.get(name)
        if stone is not None or len(places) > 1:
            facts = (_facts(taking, number, entry) for number, entry in places)
            # As a set: an index that names a block twice must not make it supersede itself.
            blocks = {one for one in facts if one is not None}
            taking.note(name, lineage(list(blocks), stone.at_us if stone else None))
    return Census(
        _in_order(taking.superseded),
        _in_order(taking.tombstoned),
        taking.changed,
        _in_order(taking.folded),
        _in_order(taking.deltas),
        _in_order(taking.loose),
        taking.broken,
        taking.damage,
    )


def current_places(
    segments: Sequence[Segment], stones: Mapping[str, Tombstone], damage: list[Damage]
) -> Iterator[tuple[str, Sequence[BlockPlace]]]:
    """Every DID in the order of its bytes, with its latest full block and the deltas that lead on
    from it. Nothing is kept: an archive may be of any size."""
    taking = _Taking(segments, False, ChangedRepos(segments), damage=damage)
    merged = heapq.merge(*(_numbered(taking, n) for n in range(len(segments))))
    for did, group in groupby(merged, key=lambda pair: pair[0]):
        places = [(segment, entry) for _, segment, _, entry in group]
        name = did.decode("utf-8", "replace")
        stone = stones.get(name)
        if stone is None and len(places) == 1:
            yield name, [BlockPlace(segments[places[0][0]], places[0][1].offset)]
            continue
        facts = (_facts(taking, number, entry) for number, entry in places)
        blocks = {one for one in facts if one is not None}
        found = lineage(list(blocks), stone.at_us if stone else None)
        if found.full is not None:
            versions = (one.version for one in (found.full, *found.deltas))
            yield name, [BlockPlace(segments[one.segment], one.offset) for one in versions]


def _numbered(taking: _Taking, number: int) -> Iterator[tuple[bytes, int, int, BlockEntry]]:
    segment = taking.segments[number]
    try:
        for entry in segment.entries():
            yield entry.did, number, entry.offset, entry
    except rca.RcaError as error:
        taking.damage.append(Damage(segment.path, error.offset, error.what))


def _facts(taking: _Taking, number: int, entry: BlockEntry) -> BlockFacts | None:
    segment = taking.segments[number]
    try:
        with segment.open() as fd:
            block = read_entry(fd, segment, entry, check=taking.check)
    except rca.RcaError as error:
        taking.damage.append(Damage(segment.path, error.offset, error.what))
        return None
    return facts_of(Version(block.head.crawled_at_us, number, entry.offset), block.head)


def _holds(offsets: Sequence[int], offset: int) -> bool:
    at = bisect_left(offsets, offset)
    return at < len(offsets) and offsets[at] == offset


def _in_order(offsets: Mapping[Place, array[int]]) -> dict[Place, array[int]]:
    return {path: array("q", sorted(found)) for path, found in offsets.items()}
