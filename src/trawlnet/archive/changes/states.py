"""The current state of a repository, for whoever reads: its latest full block as it lies there, or
one made of that and the deltas behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from trawlnet.archive.blocks import File, FoundBlock, HeldFile, read_block, read_exactly
from trawlnet.archive.census import BlockPlace, Census
from trawlnet.archive.format import rca
from trawlnet.archive.format.folding import ArchivedState, encode_state, fold, parse_state
from trawlnet.archive.reader import Damage, Place
from trawlnet.native.zstd import FrameWriter

QUICK = 1  # Level of zstd: what is packed here is unpacked at once.


@dataclass(frozen=True, slots=True)
class FoldedRepo:
    """A block that is in no file. It is opened like the segment that one is in."""

    path: Place  # Of the segment of its full block,
    offset: int  # and where that is.
    block: FoundBlock
    data: bytes
    damage: Sequence[Damage] = ()  # Why later deltas were left aside.

    @contextmanager
    def open(self) -> Iterator[File]:
        yield HeldFile(self.data)


def folded_repos(census: Census) -> Iterator[FoldedRepo | Damage]:
    """Every repository that deltas have changed, one in memory at a time."""
    for places in census.changed:
        yield folded(places)


def folded(places: Sequence[BlockPlace]) -> FoldedRepo | Damage:
    """A full block and its deltas, oldest first; as far as they can be read."""
    found = folded_state(places)
    if isinstance(found, Damage):
        return found
    state, damage = found
    data = encode_state(state, FrameWriter(QUICK, False).frame)
    block = FoundBlock(0, rca.parse_block(data), 0)
    return FoldedRepo(places[0].segment.path, places[0].offset, block, data, damage)


def folded_state(places: Sequence[BlockPlace]) -> tuple[ArchivedState, list[Damage]] | Damage:
    states: list[ArchivedState] = []
    damage: list[Damage] = []
    for one in places:
        try:
            states.append(_state(one))
        except rca.RcaError as error:
            damage.append(Damage(one.segment.path, one.offset, error.what))
            if not states:
                return damage[0]
    full, *deltas = states
    return fold(full, deltas), damage


def _state(place: BlockPlace) -> ArchivedState:
    segment, offset = place
    with segment.open() as fd:
        block = read_block(fd, offset, segment.blocks_end, check=True)
        return parse_state(read_exactly(fd, block.head.size, offset))
