"""Drop the blocks of an archive that no longer count, and fold deltas into full blocks, one segment
at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trawlnet.archive.blocks import DamagedBytes, FoundBlock, HeldFile, read_exactly
from trawlnet.archive.census import (
    BlockPlace,
    Census,
    ChangedRepos,
    load_tombstones,
    take_census,
)
from trawlnet.archive.changes.states import folded_state
from trawlnet.archive.format import rca
from trawlnet.archive.format.folding import encode_state
from trawlnet.archive.proving.proofs import NO_KEY, PRUNED, prove_block
from trawlnet.archive.reader import Damage, NoArchive, Place, Segment, find_segments
from trawlnet.archive.segment_file import CheckedBlock, check, create_segment
from trawlnet.archive.tally import Progress, open_all
from trawlnet.archive.writer import SegmentWriter
from trawlnet.engine.durable import fsync_path
from trawlnet.native.zstd import FrameWriter
from trawlnet.storage.files import disk_errors

_BATCH = 32 << 20  # Bytes that are made durable together.
_LEVEL = 3  # Of zstd, for what is folded.
_UNPROVABLE = (NO_KEY, PRUNED)  # That was so before, and is so after.


@dataclass(slots=True)
class Compaction:
    segments: int = 0
    rewritten: int = 0
    removed: int = 0  # Segments in which nothing was left.
    superseded: int = 0  # Blocks.
    tombstoned: int = 0
    folded: int = 0  # Repositories,
    deltas: int = 0  # and the deltas that they took up.
    freed: int = 0  # Bytes; folded repositories may take more than they did.
    damage: list[Damage] = field(default_factory=list)  # Damaged segments stay as they are.


def plan_compaction(folder: Path) -> Compaction:
    """What `compact` would do; changes nothing."""
    done = Compaction()
    segments, census = _look(folder, done)
    done.folded, done.deltas = len(census.changed), census.changed.deltas
    for segment in segments:
        gone = census.dead(segment.path) | frozenset(census.deltas.get(segment.path, ()))
        if not gone and segment.path not in census.folded:
            continue
        with segment.open() as fd:
            found = segment.blocks(fd, check=False)
            sizes = {one.offset: one.head.size for one in found if isinstance(one, FoundBlock)}
        done.freed += sum(sizes.get(offset, 0) for offset in gone)
        if sizes.keys() <= gone:
            done.removed += 1
        else:
            done.rewritten += 1
        _count(done, segment, census)
    return done


def compact(
    folder: Path, now: Callable[[], float], progress: Progress = lambda done: None
) -> Compaction:
    """Each segment is written anew beside the old one, which it then replaces at once: whatever
    happens in between, every latest block is there. Nobody may write to the archive meanwhile.

    First full blocks take up their deltas, wherever those are. When all are durable, the deltas
    are superseded, and dropped like all that is."""
    if not folder.is_dir():
        raise NoArchive(f"there is no folder {folder}")
    done = Compaction()
    writer = SegmentWriter(folder, now)
    try:
        writer.finalise()
        with disk_errors(f"compacting {folder}"):
            _Compacting(folder, done, progress).run()
    finally:
        writer.close()
    return done


@dataclass(slots=True)
class _Compacting:
    folder: Path
    done: Compaction
    progress: Progress
    rewritten: set[Place] = field(default_factory=set)

    def run(self) -> None:
        segments, census = _look(self.folder, self.done)
        numbers = census.changed.by_segment()
        for segment in segments:
            living = _Living(segment, census.dead(segment.path), census.changed)
            living.fold_these(numbers.get(segment.path, ()))
            if self._rewrite(living):
                _count(self.done, segment, census)
            self.progress(segment.size)
        if self.done.folded:
            # Those that were not in the segment of their full block.
            segments, census = _look(self.folder, Compaction())
            for segment in segments:
                self._rewrite(_Living(segment, census.dead(segment.path), census.changed))
        self.done.rewritten = len(self.rewritten)

    def _rewrite(self, living: _Living) -> bool:
        """False for a segment in which there is nothing to do, or that is damaged."""
        segment = living.segment
        if not living.dead and not living.folds:
            return False
        temp = segment.file.with_name(f".{segment.file.name}.tmp")
        file = create_segment(temp, segment.header.created_at_us, segment.header.version)
        try:
            for batch in _batches(living.blocks()):
                file.append(batch)
            if len(file.entries):
                file.finalise()
        except _Damaged as damaged:
            self.done.damage.append(damaged.damage)
            temp.unlink()
            return False
        finally:
            file.close()
        self.done.damage += living.refused
        if not living.dead and not living.folded:
            temp.unlink()
            return False
        self.done.folded += living.folded
        self.done.deltas += living.deltas
        self._swap(segment, temp, is_empty=not len(file.entries))
        return True

    def _swap(self, segment: Segment, temp: Path, *, is_empty: bool) -> None:
        left = 0 if is_empty else temp.stat().st_size
        if is_empty:
            temp.unlink()
            segment.file.unlink()
            self.rewritten.discard(segment.path)
            self.done.removed += 1
        else:
            temp.replace(segment.file)
            self.rewritten.add(segment.path)
        fsync_path(segment.file.parent)
        self.done.freed += segment.size - left


def _look(folder: Path, done: Compaction) -> tuple[list[Segment], Census]:
    """The segments that may be written anew, and what counts in all of them."""
    segments = open_all(find_segments(folder), done.damage)
    done.segments = len(segments)
    # Checked: a damaged block must not drive out the older one that it replaces.
    census = take_census(segments, load_tombstones(folder), check=True)
    done.damage += (*census.damage, *census.broken)
    return [segment for segment in segments if segment.damage is None], census


def _count(done: Compaction, segment: Segment, census: Census) -> None:
    done.superseded += len(census.superseded.get(segment.path, ()))
    done.tombstoned += len(census.tombstoned.get(segment.path, ()))


class _Damaged(Exception):
    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


@dataclass(slots=True)
class _Living:
    """What of a segment stays, and what it becomes; one repository in memory at a time."""

    segment: Segment
    dead: frozenset[int]
    changed: ChangedRepos
    folds: dict[int, int] = field(default_factory=dict)  # Which of those, by offset.
    folded: int = 0
    deltas: int = 0
    refused: list[Damage] = field(default_factory=list)

    def fold_these(self, numbers: Sequence[int]) -> None:
        self.folds = {self.changed[number][0].offset: number for number in numbers}

    def blocks(self) -> Iterator[CheckedBlock]:
        taken: set[int] = set()  # Deltas in this segment that are in a full block before them.
        with self.segment.open() as fd:
            for found in self.segment.blocks(fd, check=True):
                if isinstance(found, DamagedBytes):
                    raise _Damaged(Damage(self.segment.path, found.place, found.what))
                if found.offset in self.dead or found.offset in taken:
                    continue
                if found.offset in self.folds:
                    places = self.changed[self.folds[found.offset]]
                    made = self._fold(places)
                    if made:
                        taken.update(one.offset for one in places if one.segment is self.segment)
                        yield made
                        continue
                data = read_exactly(fd, found.head.size, found.offset)
                yield CheckedBlock(found.head.did.encode(), data, found.crc)

    def _fold(self, places: Sequence[BlockPlace]) -> CheckedBlock | None:
        """None, and the reason in `refused`, where deltas cannot be read or do not give what was
        signed: they stay as they are."""
        path, offset = self.segment.path, places[0].offset
        found = folded_state(places)
        if isinstance(found, Damage) or found[1]:
            self.refused += [found] if isinstance(found, Damage) else found[1]
            return None
        state, _ = found
        try:
            block = check(encode_state(state, FrameWriter(_LEVEL, False).frame))
        except ValueError as error:
            self.refused.append(Damage(path, offset, f"{state.did}: not folded: {error}"))
            return None
        held = FoundBlock(0, rca.parse_block(block.data), block.crc)
        verdict = prove_block(HeldFile(block.data), held)
        if any(one.what not in _UNPROVABLE for one in verdict.misfits):
            what = f"{state.did}: not folded: {verdict.reason}"
            self.refused.append(Damage(path, offset, what))
            return None
        self.folded += 1
        self.deltas += len(places) - 1
        return block


def _batches(blocks: Iterator[CheckedBlock]) -> Iterator[list[CheckedBlock]]:
    batch: list[CheckedBlock] = []
    size = 0
    for block in blocks:
        batch.append(block)
        size += len(block.data)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
