"""Which blocks of one DID count: the latest full one, and the deltas that lead on from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trawlnet.archive.format import rca
from trawlnet.archive.format.folding import NO_LINK

ORPHAN = "a delta of a repository that is not there"
UPON_FIRST = "a delta upon a block of version 1, which cannot be changed"


class Version(NamedTuple):
    """One block of a DID. Later ones compare greater."""

    crawled_at_us: int
    segment: int  # Its place in the order of segments.
    offset: int

    @property
    def place(self) -> tuple[int, int]:
        return self.segment, self.offset


class BlockFacts(NamedTuple):
    version: Version
    form: rca.Form
    rev: str
    since: str = ""

    @property
    def is_delta(self) -> bool:
        return self.form is rca.Form.DELTA


def facts_of(version: Version, head: rca.BlockHead) -> BlockFacts:
    return BlockFacts(version, head.form, head.rev, head.since)


@dataclass(slots=True)
class Lineage:
    full: BlockFacts | None = None
    deltas: list[BlockFacts] = field(default_factory=list)  # That lead on, in their order.
    superseded: list[BlockFacts] = field(default_factory=list)
    tombstoned: list[BlockFacts] = field(default_factory=list)
    broken: list[BlockFacts] = field(default_factory=list)  # Deltas of which a link is missing.

    def why(self, one: BlockFacts) -> str:
        if self.full is None:
            return ORPHAN
        if self.full.form is rca.Form.FIRST:
            return UPON_FIRST
        have = self.deltas[-1].rev if self.deltas else self.full.rev
        return NO_LINK.format(rev=one.rev, since=one.since, have=have)


def fits(rev: str, delta_rev: str, delta_since: str) -> bool:
    """Whether a delta leads on from a rev. It has all that has changed since its own, so that it
    also fits any rev between the two: who is killed hears commits again in other batches."""
    return delta_since <= rev < delta_rev


def lineage(blocks: Sequence[BlockFacts], stone_us: int | None = None) -> Lineage:
    """`blocks` are those of one DID, in any order; `stone_us` is when it was gone."""
    found = Lineage()
    alive: list[BlockFacts] = []
    for one in sorted(blocks):
        is_covered = stone_us is not None and one.version.crawled_at_us <= stone_us
        (found.tombstoned if is_covered else alive).append(one)
    found.full = max((one for one in alive if not one.is_delta), default=None)
    if found.full is None:
        # What was written while the tombstone was on its way lies under it, too.
        (found.broken if stone_us is None else found.tombstoned).extend(alive)
        return found
    found.superseded += (one for one in alive if not one.is_delta and one != found.full)
    _link(found, [one for one in alive if one.is_delta])
    return found


def _link(found: Lineage, deltas: Sequence[BlockFacts]) -> None:
    full = found.full
    assert full is not None
    rev, missing = full.rev, []
    for one in sorted(deltas, key=lambda one: (one.rev, one.version)):
        is_older = one.version < full.version and one.version.place < full.version.place
        if is_older or one.rev <= rev:
            found.superseded.append(one)
        elif full.form is rca.Form.FULL and fits(rev, one.rev, one.since):
            found.deltas.append(one)
            rev = one.rev
        else:
            missing.append(one)
    for one in missing:
        (found.broken if one.rev > rev else found.superseded).append(one)
