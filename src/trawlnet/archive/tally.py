"""Count what an archive holds: from tables of contents alone, or by unpacking everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from trawlnet.archive.blocks import DamagedBytes, File, FoundBlock
from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.changes.states import folded_repos
from trawlnet.archive.ends import REPOS_IN_FOOTER, check_contents, check_ends
from trawlnet.archive.format import rca
from trawlnet.archive.reader import (
    Damage,
    Place,
    Segment,
    find_segments,
    open_segment,
    read_collection,
)

Progress = Callable[[int], None]  # Told so many bytes of segments are dealt with.


@dataclass(slots=True)
class CollectionTally:
    repos: int = 0
    records: int = 0
    compressed: int = 0
    unpacked: int = 0  # Only known to `inspect`.


@dataclass(slots=True)
class Tally:
    segments: int = 0
    unfinalised: int = 0
    bytes: int = 0  # Of the files.
    repos: int = 0
    records: int = 0
    superseded: int = 0  # Blocks that a later one of the same DID replaces.
    tombstoned: int = 0
    torn: int = 0  # Bytes behind the last block of unfinalised segments.
    deltas: int = 0  # Blocks of changes; of an archive those that count.
    collections: dict[str, CollectionTally] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)

    def add(self, head: rca.BlockHead) -> None:
        self.repos += 1
        for name, records, start, end in head.collections:
            row = self.collections.get(name)
            if row is None:
                row = self.collections[name] = CollectionTally()
            row.repos += 1
            row.records += records
            row.compressed += end - start
            self.records += records


def tally(place: Place, progress: Progress = lambda done: None) -> Tally:
    """Each DID once, with its latest block, unless a tombstone covers it.

    The counts are those of the tables of contents. Whether a table can be right is checked, and so
    are both ends of each segment and its index; whether it is what was written is for `verify`.
    """
    counts = Tally()
    segments = open_checked(find_segments(place), counts.damage)
    census = take_census(segments, load_tombstones(place))
    counts.damage += (*census.damage, *census.broken)
    counts.deltas = census.changed.deltas
    for segment in segments:
        aside = census.aside(segment.path)
        counts.superseded += len(census.superseded.get(segment.path, ()))
        counts.tombstoned += len(census.tombstoned.get(segment.path, ()))
        _add_file(counts, segment)
        with segment.open() as fd:
            for block in sound_blocks(segment, fd, counts):
                if block.head.form is rca.Form.DELTA:
                    counts.damage += census.orphaned(segment.path, block.offset)
                elif block.offset not in aside:
                    counts.add(block.head)
        progress(segment.size)
    for repo in folded_repos(census):
        if isinstance(repo, Damage):
            counts.damage.append(repo)
        else:
            counts.damage += repo.damage
            counts.add(repo.block.head)
    return counts


def inspect(path: Place, progress: Progress = lambda done: None) -> tuple[Segment, Tally]:
    """Everything in one segment, each block of it, unpacked. Raises RcaError for no archive."""
    segment, counts = open_segment(path), Tally()
    counts.damage += check_ends(segment)
    _add_file(counts, segment)
    with segment.open() as fd:
        for block in sound_blocks(segment, fd, counts):
            is_delta = block.head.form is rca.Form.DELTA
            if is_delta:
                counts.deltas += 1
            else:
                counts.add(block.head)
            for collection in block.head.collections:
                try:
                    entries = read_collection(fd, block, collection)
                    for _ in rca.iter_records(entries, collection.records):
                        pass
                except rca.RcaError as error:
                    place = block.offset + collection.start
                    counts.damage.append(Damage(path, place, f"{collection.name}: {error.what}"))
                else:
                    if not is_delta:
                        counts.collections[collection.name].unpacked += len(entries)
            progress(block.head.size)
    return segment, counts


def open_all(paths: Sequence[Place], damage: list[Damage]) -> list[Segment]:
    """The segments that can be read; of the others, why not."""
    segments = []
    for path in paths:
        try:
            segment = open_segment(path)
        except rca.RcaError as error:
            damage.append(Damage(path, error.offset, error.what))
            continue
        segments.append(segment)
        if segment.damage is not None:
            damage.append(segment.damage)
    return segments


def open_checked(paths: Sequence[Place], damage: list[Damage]) -> list[Segment]:
    """The same, with all that both ends of the others say of themselves."""
    unreadable: list[Damage] = []
    segments = open_all(paths, unreadable)
    known = {segment.damage for segment in segments}
    damage += [one for one in unreadable if one not in known]
    for segment in segments:
        damage += check_ends(segment)
    return segments


def sound_blocks(segment: Segment, fd: File, counts: Tally) -> Iterator[FoundBlock]:
    """The blocks whose tables of contents can be right; what lies between them goes to the damage,
    or is the torn end."""
    last: DamagedBytes | None = None
    seen = gaps = 0
    for found in segment.blocks(fd, check=False):
        if last is not None:
            counts.damage.append(Damage(segment.path, last.place, last.what))
        last = found if isinstance(found, DamagedBytes) else None
        gaps += isinstance(found, DamagedBytes)
        if isinstance(found, FoundBlock):
            seen += 1
            try:
                check_contents(found.head)
            except rca.RcaError as error:
                place = found.offset + error.offset
                counts.damage.append(Damage(segment.path, place, error.what))
                continue
            yield found
    if segment.footer is not None and not gaps and seen != segment.footer.repo_count:
        place = segment.size - rca.FOOTER_SIZE + REPOS_IN_FOOTER
        what = f"{segment.footer.repo_count} repos, and {seen} blocks"
        counts.damage.append(Damage(segment.path, place, what))
    if last is not None and segment.finalised:
        counts.damage.append(Damage(segment.path, last.place, last.what))
    elif last is not None:
        counts.torn += last.end - last.offset


def _add_file(counts: Tally, segment: Segment) -> None:
    counts.segments += 1
    counts.unfinalised += not segment.finalised
    counts.bytes += segment.size
