"""What a killed crawl left in its last segment: kept as far as it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trawlnet.archive.blocks import DamagedBytes, FoundBlock, read_exactly
from trawlnet.archive.entries import EntryLog
from trawlnet.archive.format import rca
from trawlnet.archive.reader import Segment, entry_of
from trawlnet.archive.segment_file import CheckedBlock, SegmentFile

_GAPS = 100  # So many are told one by one.


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of one unfinalised segment."""

    path: Path
    repos: int
    cut: int  # Bytes behind the last whole block.
    damage: Sequence[DamagedBytes] = ()  # Not torn by a crash: sound blocks come after it.
    set_aside: Path | None = None  # Where a damaged one was moved, its sound blocks copied.


@dataclass(frozen=True, slots=True)
class Findings:
    entries: EntryLog
    end: int  # Of the last sound block.
    damage: Sequence[DamagedBytes]  # Before that end.


def examine(segment: Segment) -> Findings:
    """Check every block of an unfinalised segment; changes nothing."""
    entries, end = EntryLog(), rca.HEADER_SIZE
    damage: list[DamagedBytes] = []
    before: list[DamagedBytes] = []
    with segment.open() as fd:
        for found in segment.blocks(fd, check=True):
            if isinstance(found, DamagedBytes):
                before = [*before, found][:_GAPS]
                continue
            entries.add(entry_of(found))
            end = found.end
            damage, before = (damage + before)[:_GAPS], []
    return Findings(entries, end, damage)


def cut_and_continue(segment: Segment, findings: Findings) -> SegmentFile:
    """The segment without its torn tail, ready for more."""
    header = segment.header
    file = SegmentFile(
        segment.file, header.created_at_us, findings.entries, findings.end, header.version
    )
    try:
        if segment.file.stat().st_size > findings.end:
            os.truncate(segment.file, findings.end)
        # Blocks that a killed writer left in the page cache are not durable yet.
        file.append(())
    except OSError:
        file.close()
        raise
    return file


def sound_blocks(segment: Segment) -> Iterator[CheckedBlock]:
    with segment.open() as fd:
        for found in segment.blocks(fd, check=True):
            if isinstance(found, FoundBlock):
                data = read_exactly(fd, found.head.size, found.offset)
                yield CheckedBlock(found.head.did.encode(), data, found.crc)
