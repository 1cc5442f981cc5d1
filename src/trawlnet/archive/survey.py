"""Look over an archive for its report: what is in it, from where, since when, in which languages.

One pass, a collection of one repository in memory at a time. What is counted by a stranger's word
is bounded: past so many words the rest are counted together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from trawlnet.archive.blocks import File, FoundBlock
from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.changes.states import FoldedRepo, folded_repos
from trawlnet.archive.format import rca
from trawlnet.archive.format.record_counts import RecordCounts, new_counts
from trawlnet.archive.reader import Damage, Place, Segment, find_segments, read_collection
from trawlnet.archive.tally import Progress, Tally, open_checked, sound_blocks

OTHERS = "(others)"
UNDATED = "(undated)"
_MOST_WORDS = 50_000


@dataclass(slots=True)
class Survey:
    tally: Tally = field(default_factory=Tally)
    unpacked: int = 0  # Bytes of records as JSON, keys included.
    repos_by_pds: Counter[str] = field(default_factory=Counter)
    records_by_pds: Counter[str] = field(default_factory=Counter)
    records_by_month: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    repos_by_size: Counter[int] = field(default_factory=Counter)  # By the power of 2 of the bytes.
    repos_by_records: Counter[int] = field(default_factory=Counter)  # By the power of 10.
    first_crawled_us: int = 0
    last_crawled_us: int = 0


def survey(place: Place, progress: Progress = lambda done: None) -> Survey:
    """Each DID once, with its latest block, unless a tombstone covers it."""
    seen, counts = Survey(), new_counts()
    segments = open_checked(find_segments(place), seen.tally.damage)
    census = take_census(segments, load_tombstones(place))
    seen.tally.damage += (*census.damage, *census.broken)
    seen.tally.deltas = census.changed.deltas
    for segment in segments:
        aside = census.aside(segment.path)
        seen.tally.segments += 1
        seen.tally.unfinalised += not segment.finalised
        seen.tally.bytes += segment.size
        seen.tally.superseded += len(census.superseded.get(segment.path, ()))
        seen.tally.tombstoned += len(census.tombstoned.get(segment.path, ()))
        with segment.open() as fd:
            for block in sound_blocks(segment, fd, seen.tally):
                if block.head.form is rca.Form.DELTA:
                    seen.tally.damage += census.orphaned(segment.path, block.offset)
                elif block.offset not in aside:
                    _add_block(seen, counts, segment, fd, block)
                progress(block.head.size)
    for repo in folded_repos(census):
        if isinstance(repo, Damage):
            seen.tally.damage.append(repo)
            continue
        seen.tally.damage += repo.damage
        with repo.open() as fd:
            _add_block(seen, counts, repo, fd, repo.block)
    seen.records_by_month.update(counts.months())
    if undated := counts.undated():
        seen.records_by_month[UNDATED] = undated
    seen.languages.update(counts.languages())
    return seen


def _add_block(
    seen: Survey,
    counts: RecordCounts,
    segment: Segment | FoldedRepo,
    fd: File,
    block: FoundBlock,
) -> None:
    head, records = _with_known_names(seen, block.head), 0
    seen.tally.add(head)
    for collection in head.collections:
        records += collection.records
        try:
            entries = read_collection(fd, block, collection)
            if not counts.add(entries, collection.records):
                raise rca.RcaCut(len(entries), "the data end inside a field")
        except rca.RcaError as error:
            place = block.offset + collection.start
            what = f"{collection.name}: {error.what}"
            seen.tally.damage.append(Damage(segment.path, place, what))
            continue
        seen.unpacked += len(entries)
        seen.tally.collections[collection.name].unpacked += len(entries)
    pds = _word(seen.repos_by_pds, head.pds)
    seen.repos_by_pds[pds] += 1
    seen.records_by_pds[pds] += records
    seen.repos_by_size[head.size.bit_length() - 1] += 1
    seen.repos_by_records[len(str(records)) if records else 0] += 1
    seen.first_crawled_us = min(seen.first_crawled_us or head.crawled_at_us, head.crawled_at_us)
    seen.last_crawled_us = max(seen.last_crawled_us, head.crawled_at_us)


def _with_known_names(seen: Survey, head: rca.BlockHead) -> rca.BlockHead:
    """A repository may name what collections it likes: 65,535 of them, and others next time."""
    known = seen.tally.collections
    if len(known) < _MOST_WORDS:
        return head
    renamed = [one if one.name in known else one._replace(name=OTHERS) for one in head.collections]
    return head._replace(collections=renamed)


def _word(counts: Counter[str], word: str) -> str:
    return word if word in counts or len(counts) < _MOST_WORDS else OTHERS
