"""Which blocks of an archive count: the latest of each DID, unless a tombstone covers it."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from trawlnet.archive.entries import BlockEntry
from trawlnet.archive.format import rca
from trawlnet.archive.reader import Damage, Place, Segment, read_entry
from trawlnet.archive.tombstones import Tombstone, read_tombstones


class Version(NamedTuple):
    """One block of a DID. Later ones compare greater."""

    crawled_at_us: int
    segment: int  # Its place in the order of segments.
    offset: int


@dataclass(frozen=True, slots=True)
class Census:
    """The blocks that do not count, by segment, their offsets in order. They take 8 bytes each;
    the others take nothing."""

    superseded: Mapping[Place, array[int]]
    tombstoned: Mapping[Place, array[int]]
    damage: Sequence[Damage] = ()
    changed: Sequence[Sequence[BlockPlace]] = ()  # A full block and its deltas, for each DID,
    folded: Mapping[Place, array[int]] = field(default_factory=dict)  # and their offsets.

    def dead(self, path: Place) -> frozenset[int]:
        return frozenset(self.superseded.get(path, ())) | frozenset(self.tombstoned.get(path, ()))

    def aside(self, path: Place) -> frozenset[int]:
        """Those that do not count by themselves: the dead, and what has to be folded first."""
        return self.dead(path) | frozenset(self.folded.get(path, ()))


class BlockPlace(NamedTuple):
    segment: Segment
    entry: BlockEntry


@dataclass(slots=True)
class _Taking:
    segments: Sequence[Segment]
    stones: Mapping[str, Tombstone]
    check: bool
    superseded: dict[Place, array[int]] = field(default_factory=dict)
    tombstoned: dict[Place, array[int]] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    changed: list[list[BlockPlace]] = field(default_factory=list)


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
    taking = _Taking(segments, stones, check)
    merged = heapq.merge(*(_numbered(taking, n) for n in range(len(segments))))
    for did, group in groupby(merged, key=lambda pair: pair[0]):
        places = [(segment, entry) for _, segment, _, entry in group]
        stone = stones.get(did.decode("utf-8", "replace"))
        # A delta by itself is none of a repository: whoever meets it passes it over.
        if stone is not None or len(places) > 1:
            _sort_out(taking, places, stone)
    superseded, tombstoned = _in_order(taking.superseded), _in_order(taking.tombstoned)
    folded: dict[Place, array[int]] = {}
    for one in (one for blocks in taking.changed for one in blocks):
        folded.setdefault(one.segment.path, array("q")).append(one.entry.offset)
    return Census(superseded, tombstoned, taking.damage, taking.changed, folded)


def _numbered(taking: _Taking, number: int) -> Iterator[tuple[bytes, int, int, BlockEntry]]:
    segment = taking.segments[number]
    try:
        for entry in segment.entries():
            yield entry.did, number, entry.offset, entry
    except rca.RcaError as error:
        taking.damage.append(Damage(segment.path, error.offset, error.what))


def _sort_out(
    taking: _Taking, places: Sequence[tuple[int, BlockEntry]], stone: Tombstone | None
) -> None:
    # By version: an index that names a block twice must not make it supersede itself.
    found: dict[Version, tuple[BlockPlace, bool]] = {}
    for number, entry in places:
        if read := _version(taking, number, entry):
            found[read[0]] = BlockPlace(taking.segments[number], entry), read[1]
    versions = sorted(found)
    full = max((version for version in versions if not found[version][1]), default=None)
    counting = []
    for version in versions:
        path = taking.segments[version.segment].path
        if stone is not None and version.crawled_at_us <= stone.at_us:
            taking.tombstoned.setdefault(path, array("q")).append(version.offset)
        elif full is not None and version < full:
            taking.superseded.setdefault(path, array("q")).append(version.offset)
        else:
            counting.append(version)
    if any(found[version][1] for version in counting):
        taking.changed.append([found[version][0] for version in counting])


def _version(taking: _Taking, number: int, entry: BlockEntry) -> tuple[Version, bool] | None:
    """And whether it is a delta."""
    segment = taking.segments[number]
    try:
        with segment.open() as fd:
            block = read_entry(fd, segment, entry, check=taking.check)
    except rca.RcaError as error:
        taking.damage.append(Damage(segment.path, error.offset, error.what))
        return None
    version = Version(block.head.crawled_at_us, number, entry.offset)
    return version, block.head.form is rca.Form.DELTA


def _in_order(offsets: Mapping[Place, array[int]]) -> dict[Place, array[int]]:
    return {path: array("q", sorted(found)) for path, found in offsets.items()}
