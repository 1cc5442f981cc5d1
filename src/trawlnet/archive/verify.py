"""Check every byte of a segment: both ends, every block, every record, and the index over them."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise, starmap, zip_longest
from operator import eq
from typing import NamedTuple

from trawlnet.archive.blocks import DamagedBytes, File, FoundBlock, ReadAhead, read_block
from trawlnet.archive.census import Census
from trawlnet.archive.changes.states import folded_repos
from trawlnet.archive.ends import REPOS_IN_FOOTER, end_damage, index_damage
from trawlnet.archive.entries import BlockEntry, EntryLog
from trawlnet.archive.format import rca
from trawlnet.archive.lookup import is_json
from trawlnet.archive.proving.proofs import ProofVerdict, prove_block
from trawlnet.archive.reader import Damage, Place, Segment, entry_of, open_segment, read_collection
from trawlnet.archive.tally import Progress
from trawlnet.atproto.syntax import is_did

_TOLD = 1000  # Damages of one segment that are told one by one.


class Proven(NamedTuple):
    """What the proof of a block came to, and where it is."""

    path: Place
    offset: int
    verdict: ProofVerdict


Tell = Callable[[Proven], None]


class _Proving(NamedTuple):
    tell: Tell | None
    census: Census | None


@dataclass(slots=True)
class SegmentVerdict:
    path: Place
    finalised: bool = False
    bytes: int = 0
    blocks: int = 0
    records: int = 0
    torn: int = 0  # Bytes behind the last block of an unfinalised segment: no damage.
    damage: list[Damage] = field(default_factory=list)
    untold: int = 0  # More damage than is listed.

    @property
    def sound(self) -> bool:
        return not self.damage

    def found(self, offset: int, what: str) -> None:
        if len(self.damage) < _TOLD:
            self.damage.append(Damage(self.path, offset, what))
        else:
            self.untold += 1


def verify_segment(
    path: Place,
    progress: Progress = lambda done: None,
    *,
    tell: Tell | None = None,
    census: Census | None = None,
) -> SegmentVerdict:
    """With `tell` every block is proven and told of but those that do not count by themselves; with
    the census of all segments a delta without its repository is damage."""
    verdict = SegmentVerdict(path)
    try:
        segment = open_segment(path)
    except rca.RcaError as error:
        verdict.found(error.offset, error.what)
        return verdict
    verdict.finalised, verdict.bytes = segment.finalised, segment.size
    if segment.damage is not None:
        verdict.damage.append(segment.damage)
    for offset, what in end_damage(segment):
        verdict.found(offset, what)
    with segment.open() as fd:
        near = ReadAhead(fd) if isinstance(fd, int) else fd
        log, gaps = _check_blocks(verdict, segment, near, progress, _Proving(tell, census))
    if segment.footer is not None:
        _check_index(verdict, segment, log, gaps)
    progress(segment.size - segment.blocks_end)
    return verdict


def _check_blocks(
    verdict: SegmentVerdict,
    segment: Segment,
    fd: File,
    progress: Progress,
    proving: _Proving,
) -> tuple[EntryLog, list[DamagedBytes]]:
    log, tell = EntryLog(), proving.tell
    aside = proving.census.aside(segment.path) if proving.census else frozenset()
    gaps: list[DamagedBytes] = []
    for found in segment.blocks(fd, check=True):
        if isinstance(found, DamagedBytes):
            gaps.append(found)
            progress(found.end - found.offset)
            continue
        log.add(entry_of(found))
        verdict.blocks += 1
        is_delta = found.head.form is rca.Form.DELTA
        if is_delta and proving.census:
            for orphan in proving.census.orphaned(segment.path, found.offset):
                verdict.found(orphan.offset, f"{found.head.did}: {orphan.what}")
        counts = found.offset not in aside and not is_delta
        proof = prove_block(fd, found) if tell and counts else None
        if tell and proof:
            tell(Proven(segment.path, found.offset, proof))
        # Whoever was proven was read more closely than here.
        if not (proof and proof.proven):
            for offset, what in _block_damage(fd, found):
                verdict.found(offset, what)
        verdict.records += sum(one.records for one in found.head.collections)
        progress(found.head.size)
    if gaps and not segment.finalised and gaps[-1].end == segment.blocks_end:
        torn = gaps.pop()
        verdict.torn = torn.end - torn.offset
    for gap in gaps:
        what = _named(fd, segment, gap) if tell else ""
        verdict.found(gap.place, what + gap.what)
    return log, gaps


def _named(fd: File, segment: Segment, gap: DamagedBytes) -> str:
    """Whose damage it is, as far as what is left of a block can say: the DID, and the record that
    does not fit."""
    try:
        block = read_block(fd, gap.offset, segment.blocks_end, check=False)
        if not is_did(block.head.did):
            raise rca.RcaError(gap.offset, "no DID")
    except rca.RcaError:
        starts = (entry for entry in _entries(segment) if entry.offset == gap.offset)
        return "".join(f"{entry.did.decode(errors='replace')}: " for entry in starts)
    misfits = prove_block(fd, block).misfits
    where = misfits[0].where if misfits else ""
    return f"{block.head.did} {where}".rstrip() + ": "


def _entries(segment: Segment) -> Iterator[BlockEntry]:
    try:
        yield from segment.entries()
    except rca.RcaError:
        return  # That is told elsewhere.


def _block_damage(fd: File, block: FoundBlock) -> Iterator[tuple[int, str]]:
    names = [collection.name.encode() for collection in block.head.collections]
    if any(one >= other for one, other in pairwise(names)):
        yield block.offset + block.head.crc_end, "collections that are not sorted by name"
    for collection in block.head.collections:
        start = block.offset + collection.start
        try:
            what = _records_damage(read_collection(fd, block, collection), collection.records)
        except rca.RcaError as error:
            what = error.what
        if what:
            yield start, f"{collection.name}: {what}"


def _records_damage(entries: bytes, count: int) -> str:
    """What is wrong with the records of a collection; empty when nothing is."""
    before = ""
    for number, (rkey, json) in enumerate(rca.iter_records(entries, count)):
        # Keys are ASCII: their order as texts is their order as bytes.
        if rkey <= before and number:
            return f"record key {rkey[:80]!r} is out of order"
        if not is_json(json):
            return f"record {rkey[:80]!r} is no JSON object"
        before = rkey
    return ""


def _check_index(
    verdict: SegmentVerdict, segment: Segment, log: EntryLog, gaps: list[DamagedBytes]
) -> None:
    wrong = list(index_damage(segment))
    for offset, what in wrong:
        verdict.found(offset, what)
    place = segment.size - rca.FOOTER_SIZE + REPOS_IN_FOOTER
    if any(offset != place for offset, _ in wrong):
        return  # An index that is no use says nothing about blocks.
    # As a rule both say the same, and finding out what does not fit takes three times as long.
    if all(starmap(eq, zip_longest(segment.entries(), log))):
        return
    for offset, what in _index_against_blocks(segment.entries(), iter(log), gaps):
        verdict.found(offset, what)


def _index_against_blocks(
    index: Iterator[BlockEntry], blocks: Iterator[BlockEntry], gaps: list[DamagedBytes]
) -> Iterator[tuple[int, str]]:
    """Both come sorted by DID. What lies in a gap has been told already."""
    both = heapq.merge(
        ((entry, True) for entry in index),
        ((entry, False) for entry in blocks),
        key=lambda pair: pair[0].did,
    )
    starts = [gap.offset for gap in gaps]
    for did, group in groupby(both, key=lambda pair: pair[0].did):
        listed: dict[int, BlockEntry] = {}
        there: dict[int, BlockEntry] = {}
        for entry, of_index in group:
            (listed if of_index else there)[entry.offset] = entry
        name = did[:80].decode("utf-8", "replace")
        for offset in sorted(listed.keys() | there.keys()):
            if offset not in there and not _inside(offset, starts, gaps):
                yield offset, f"no block of {name} here, the index says there is"
            elif offset not in listed:
                yield offset, f"a block of {name} that is not in the index"
            elif offset in there and listed[offset] != there[offset]:
                yield offset, f"the block of {name} is not the one in the index (size or CRC)"


def _inside(offset: int, starts: list[int], gaps: list[DamagedBytes]) -> bool:
    before = bisect_right(starts, offset) - 1
    return before >= 0 and offset < gaps[before].end


def prove_folded(census: Census, tell: Tell) -> Iterator[Damage]:
    """The repositories that deltas have changed are proven as they are now; of those that cannot
    be made, why not."""
    for repo in folded_repos(census):
        if isinstance(repo, Damage):
            yield repo
            continue
        with repo.open() as fd:
            verdict = prove_block(fd, repo.block)
        tell(Proven(repo.path, repo.offset, verdict))
