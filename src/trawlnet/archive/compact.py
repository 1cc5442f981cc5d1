"""Drop the blocks of an archive that no longer count, one segment at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trawlnet.archive.blocks import DamagedBytes, FoundBlock, read_exactly
from trawlnet.archive.census import Census, load_tombstones, take_census
from trawlnet.archive.reader import Damage, NoArchive, Segment, find_segments
from trawlnet.archive.segment_file import CheckedBlock, create_segment
from trawlnet.archive.tally import Progress, open_all
from trawlnet.archive.writer import SegmentWriter
from trawlnet.engine.durable import fsync_path
from trawlnet.storage.files import disk_errors

_BATCH = 32 << 20  # Bytes that are made durable together.


@dataclass(slots=True)
class Compaction:
    segments: int = 0
    rewritten: int = 0
    removed: int = 0  # Segments in which nothing was left.
    superseded: int = 0  # Blocks.
    tombstoned: int = 0
    freed: int = 0  # Bytes.
    damage: list[Damage] = field(default_factory=list)  # Damaged segments stay as they are.


def plan_compaction(folder: Path) -> Compaction:
    """What `compact` would do; changes nothing."""
    done = Compaction()
    for segment, census in _worth_it(folder, done):
        dead = census.dead(segment.path)
        with segment.open() as fd:
            found = segment.blocks(fd, check=False)
            sizes = {one.offset: one.head.size for one in found if isinstance(one, FoundBlock)}
        done.freed += sum(sizes.get(offset, 0) for offset in dead)
        if sizes.keys() <= dead:
            done.removed += 1
        else:
            done.rewritten += 1
        _count(done, segment, census)
    return done


def compact(
    folder: Path, now: Callable[[], float], progress: Progress = lambda done: None
) -> Compaction:
    """Each segment is written anew beside the old one, which it then replaces at once: whatever
    happens in between, every latest block is there. Nobody may write to the archive meanwhile."""
    if not folder.is_dir():
        raise NoArchive(f"there is no folder {folder}")
    done = Compaction()
    writer = SegmentWriter(folder, now)
    try:
        writer.finalise()
        with disk_errors(f"compacting {folder}"):
            for segment, census in _worth_it(folder, done):
                before = segment.size
                left = _rewrite(segment, census.dead(segment.path), done)
                if left is not None:
                    done.freed += before - left
                    _count(done, segment, census)
                progress(before)
    finally:
        writer.close()
    return done


def _worth_it(folder: Path, done: Compaction) -> Iterator[tuple[Segment, Census]]:
    """Segments with something to drop."""
    segments = open_all(find_segments(folder), done.damage)
    done.segments = len(segments)
    # Checked: a damaged block must not drive out the older one that it replaces.
    census = take_census(segments, load_tombstones(folder), check=True)
    done.damage += census.damage
    for segment in segments:
        if census.dead(segment.path) and segment.damage is None:
            yield segment, census


def _count(done: Compaction, segment: Segment, census: Census) -> None:
    done.superseded += len(census.superseded.get(segment.path, ()))
    done.tombstoned += len(census.tombstoned.get(segment.path, ()))


def _rewrite(segment: Segment, dead: frozenset[int], done: Compaction) -> int | None:
    """The size of what is left; None for a damaged segment, which is left alone."""
    temp = segment.file.with_name(f".{segment.file.name}.tmp")
    file = create_segment(temp, segment.header.created_at_us, segment.header.version)
    try:
        for batch in _batches(_living(segment, dead)):
            file.append(batch)
        if len(file.entries):
            file.finalise()
    except _Damaged as damaged:
        done.damage.append(damaged.damage)
        temp.unlink()
        return None
    finally:
        file.close()
    if not len(file.entries):
        temp.unlink()
        segment.file.unlink()
        fsync_path(segment.file.parent)
        done.removed += 1
        return 0
    left = temp.stat().st_size
    temp.replace(segment.file)
    fsync_path(segment.file.parent)
    done.rewritten += 1
    return left


class _Damaged(Exception):
    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


def _living(segment: Segment, dead: frozenset[int]) -> Iterator[CheckedBlock]:
    with segment.open() as fd:
        for found in segment.blocks(fd, check=True):
            if isinstance(found, DamagedBytes):
                raise _Damaged(Damage(segment.path, found.place, found.what))
            if found.offset not in dead:
                data = read_exactly(fd, found.head.size, found.offset)
                yield CheckedBlock(found.head.did.encode(), data, found.crc)


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
