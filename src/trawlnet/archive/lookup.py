"""Find one repository in an archive, and read its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.census import BlockPlace, Version
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
    """By CrawledAt, then by place. A damaged block is passed over, and told."""
    found, best = RepoLookup(), Version(-(1 << 63), -1, 0)
    deltas: list[tuple[Version, BlockPlace]] = []
    for number, segment in enumerate(open_all(find_segments(place), found.damage)):
        for entry in segment.find(did):
            try:
                with segment.open() as fd:
                    block = read_entry(fd, segment, entry, check=True)
            except rca.RcaError as error:
                found.damage.append(Damage(segment.path, error.offset, error.what))
                continue
            version = Version(block.head.crawled_at_us, number, entry.offset)
            if block.head.form is rca.Form.DELTA:
                deltas.append((version, BlockPlace(segment, entry)))
            elif version > best:
                best, found.block, found.segment = version, block, segment
                full = BlockPlace(segment, entry)
    if found.block is not None:
        later = [one for version, one in sorted(deltas) if version > best]
        if later:
            _fold(found, [full, *later])
        found.tombstone = _covering(place, did, found.block.head.crawled_at_us)
    return found


def _fold(found: RepoLookup, places: list[BlockPlace]) -> None:
    """What deltas have changed; where they cannot be read, the full block stands."""
    made = folded(places)
    if isinstance(made, Damage):
        found.damage.append(made)
        return
    found.block, found.segment = made.block, made
    if made.incomplete:
        found.damage.append(Damage(made.path, made.offset, made.incomplete))


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


def _covering(place: Place, did: str, crawled_at_us: int) -> Tombstone | None:
    stones = (stone for stone in read_tombstones(place) if stone.did == did)
    return max(
        (stone for stone in stones if stone.at_us >= crawled_at_us),
        key=lambda stone: stone.at_us,
        default=None,
    )
