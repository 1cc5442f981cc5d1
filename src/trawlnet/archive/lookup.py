"""Find one repository in an archive, and read its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.census import BlockPlace
from trawlnet.archive.changes.lineage import BlockFacts, Version, facts_of, lineage
from trawlnet.archive.changes.states import FoldedRepo, folded
from trawlnet.archive.format import rca
from trawlnet.archive.reader import (
    Damage,
    Place,
    Segment,
    find_segments,
    read_collection,
    read_entry,
)
from trawlnet.archive.tally import open_all
from trawlnet.archive.tombstones import Tombstone, read_tombstones

_json = msgspec.json.Decoder(msgspec.Raw)


class FoundRecord(NamedTuple):
    collection: str
    rkey: str
    json: bytes


@dataclass(slots=True)
class RepoLookup:
    """The state of one DID, if there is a sound block of it."""

    block: FoundBlock | None = None
    segment: Segment | FoldedRepo | None = None
    tombstone: Tombstone | None = None  # The latest one that covers the block.
    damage: list[Damage] = field(default_factory=list)


def look_up(place: Place, did: str) -> RepoLookup:
    """By CrawledAt, then by place, with what deltas have changed. A damaged block is passed over,
    and told."""
    found = RepoLookup()
    blocks: dict[BlockFacts, tuple[Segment, FoundBlock]] = {}
    for number, segment in enumerate(open_all(find_segments(place), found.damage)):
        for entry in segment.find(did):
            try:
                with segment.open() as fd:
                    block = read_entry(fd, segment, entry, check=True)
            except rca.RcaError as error:
                found.damage.append(Damage(segment.path, error.offset, error.what))
                continue
            version = Version(block.head.crawled_at_us, number, entry.offset)
            blocks[facts_of(version, block.head)] = segment, block
    stone = _stone(place, did)
    line = lineage(list(blocks), stone.at_us if stone else None)
    if line.full is None and stone is not None:
        found.tombstone, line = stone, lineage(list(blocks))
    for one in line.broken:
        segment, block = blocks[one]
        found.damage.append(Damage(segment.path, block.offset, line.why(one)))
    if line.full is not None:
        found.segment, found.block = blocks[line.full]
    if line.full is not None and line.deltas:
        chain = (blocks[one] for one in (line.full, *line.deltas))
        _fold(found, [BlockPlace(segment, block.offset) for segment, block in chain])
    return found


def _fold(found: RepoLookup, places: list[BlockPlace]) -> None:
    """What deltas have changed; where they cannot be read, the full block stands."""
    made = folded(places)
    if isinstance(made, Damage):
        found.damage.append(made)
        return
    found.block, found.segment = made.block, made
    found.damage += made.damage


def records(
    segment: Segment | FoldedRepo, block: FoundBlock, wanted: Callable[[str], bool]
) -> Iterator[FoundRecord | Damage]:
    """The records of the wanted collections; a damaged one costs itself and is told."""
    with segment.open() as fd:
        for collection in block.head.collections:
            if not wanted(collection.name):
                continue
            place = block.offset + collection.start
            try:
                entries = read_collection(fd, block, collection)
                for rkey, json in rca.iter_records(entries, collection.records):
                    if is_json(json):
                        yield FoundRecord(collection.name, rkey, json)
                    else:
                        yield Damage(segment.path, place, f"{collection.name}/{rkey}: no JSON")
            except rca.RcaError as error:
                yield Damage(segment.path, place, f"{collection.name}: {error.what}")


def is_json(data: bytes) -> bool:
    """One object, in UTF-8; looked through without making Python objects of it."""
    try:
        _json.decode(data)
        data.decode()
    except (ValueError, RecursionError):  # The latter: nested deeper than anybody can read.
        return False
    return data.startswith(b"{")


def _stone(place: Place, did: str) -> Tombstone | None:
    """The latest one of a DID."""
    stones = (stone for stone in read_tombstones(place) if stone.did == did)
    return max(stones, key=lambda stone: stone.at_us, default=None)
