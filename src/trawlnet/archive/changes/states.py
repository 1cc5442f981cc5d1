"""The current state of a repository, for whoever reads: its latest full block as it lies there, or
one made of that and the deltas behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trawlnet.archive.blocks import File, FoundBlock, HeldFile, read_exactly
from trawlnet.archive.census import BlockPlace, Census
from trawlnet.archive.format import rca
from trawlnet.archive.format.folding import ArchivedState, encode_state, fold, parse_state
from trawlnet.archive.reader import Damage, Place, read_entry
from trawlnet.native.zstd import FrameWriter

ORPHAN = "a delta of a repository that is not there"
QUICK = 1  # Level of zstd: what is packed here is unpacked at once.


@dataclass(frozen=True, slots=True)
class FoldedRepo:
    """A block that is in no file. It is opened like the segment that one is in."""

    path: Place  # Of the segment of its full block,
    offset: int  # and where that is.
    block: FoundBlock
    incomplete: str  # Why later deltas were left aside.
    data: bytes

    @contextmanager
    def open(self) -> Iterator[File]:
        yield HeldFile(self.data)


def folded_repos(census: Census) -> Iterator[FoldedRepo | Damage]:
    """Every repository that deltas have changed, one in memory at a time."""
    for places in census.changed:
        yield folded(places)


def folded(places: Sequence[BlockPlace]) -> FoldedRepo | Damage:
    """A full block and its deltas, oldest first."""
    segment, entry = places[0]
    states = []
    for one in places:
        try:
            states.append(_state(one))
        except rca.RcaError as error:
            return Damage(one.segment.path, one.entry.offset, error.what)
    full, *deltas = states
    if full.since:
        return Damage(segment.path, entry.offset, ORPHAN)
    state = fold(full, deltas)
    data = encode_state(state, FrameWriter(QUICK, False).frame)
    block = FoundBlock(0, rca.parse_block(data), 0)
    return FoldedRepo(segment.path, entry.offset, block, state.incomplete, data)


def _state(place: BlockPlace) -> ArchivedState:
    segment, entry = place
    with segment.open() as fd:
        read_entry(fd, segment, entry, check=True)
        return parse_state(read_exactly(fd, entry.size, entry.offset))
