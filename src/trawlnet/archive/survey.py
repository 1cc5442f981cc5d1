"""Look over an archive for its report: what is in it, from where, since when, in which languages.

One pass, a collection of one repository in memory at a time. What is counted by a stranger's word
is bounded: past so many words the rest are counted together.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trawlnet.archive.blocks import File, FoundBlock
from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.segment import Damage, Place, Segment, find_segments, read_collection
from trawlnet.archive.tally import Progress, Tally, open_all, sound_blocks
from trawlnet.formats import rca

OTHERS = "(others)"
UNDATED = "(undated)"
_MOST_WORDS = 50_000
_MONTH = re.compile(r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])(?=-|$)")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?=-|$)")
_LANGUAGES = 16  # Of one record that are looked at.
_RKEY = struct.Struct("<H")
_JSON = struct.Struct("<I")


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
    seen = Survey()
    segments = open_all(find_segments(place), seen.tally.damage)
    census = take_census(segments, load_tombstones(place))
    seen.tally.damage += census.damage
    for segment in segments:
        dead = census.dead(segment.path)
        seen.tally.segments += 1
        seen.tally.unfinalised += not segment.finalised
        seen.tally.bytes += segment.size
        seen.tally.superseded += len(census.superseded.get(segment.path, ()))
        seen.tally.tombstoned += len(census.tombstoned.get(segment.path, ()))
        with segment.open() as fd:
            for block in sound_blocks(segment, fd, seen.tally):
                if block.offset not in dead:
                    _add_block(seen, segment, fd, block)
                progress(block.head.size)
    return seen


def _add_block(seen: Survey, segment: Segment, fd: File, block: FoundBlock) -> None:
    head, records = block.head, 0
    seen.tally.add(head)
    for collection in head.collections:
        records += collection.records
        try:
            entries = read_collection(fd, block, collection)
            _add_records(seen, entries, collection.records)
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


class _Seen(msgspec.Struct, gc=False):
    """Of a record what the report counts; whatever stands there, since records are strangers'."""

    created: Any = msgspec.field(name="createdAt", default=None)
    languages: Any = msgspec.field(name="langs", default=None)


_decoder = msgspec.json.Decoder(_Seen)
_decode, _decode_lines = _decoder.decode, _decoder.decode_lines


def _add_records(seen: Survey, entries: bytes, count: int) -> None:
    """A million of these a second is the aim, so that nothing is called for a record alone."""
    dates: Counter[str] = Counter()
    spoken: Counter[str] = Counter()
    at = done = 0
    while done < count:
        bodies, at = _bodies(entries, at, min(count - done, _AT_ONCE))
        done += len(bodies)
        records = _decoded(bodies)
        said = [record.created for record in records]
        # By their first letters; those that are no month are sorted out by kind below.
        dates.update([date[:8] for date in said if date.__class__ is str])
        languages = [one.languages for one in records if one.languages.__class__ is list]
        spoken.update(
            [word for some in languages for word in some[:_LANGUAGES] if word.__class__ is str]
        )
    dates[UNDATED] += count - dates.total()
    for word, times in dates.items():
        month = _MONTH.match(word)
        seen.records_by_month[month.group() if month else UNDATED] += times
    for word, times in spoken.items():
        if language := _LANGUAGE.match(word):
            seen.languages[_word(seen.languages, language.group().lower())] += times


_AT_ONCE = 4096  # Records of which a second copy is made.


def _bodies(entries: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    """The next records as they were written, and where those after them begin."""
    bodies: list[bytes] = []
    add, rkey_at, json_at = bodies.append, _RKEY.unpack_from, _JSON.unpack_from
    try:
        for _ in range(count):
            key_end = at + 2 + rkey_at(entries, at)[0]
            start = key_end + 4
            at = start + json_at(entries, key_end)[0]
            add(entries[start:at])
    except struct.error:
        at = len(entries) + 1
    if at > len(entries):
        raise rca.RcaCut(len(entries), "the data end inside a field")
    return bodies, at


def _decoded(bodies: list[bytes]) -> list[_Seen]:
    """All in one call, which takes half the time. What is not an object, or not JSON, is left out:
    that is for `verify` to tell."""
    try:
        lines = b"\n".join(bodies)
        # As many values as lines, and no line inside a record: each record is a value by itself.
        if lines.count(b"\n") + 1 == len(bodies) == len(records := _decode_lines(lines)):
            return records
    except msgspec.DecodeError:
        pass
    return [record for body in bodies if (record := _decoded_alone(body)) is not None]


def _decoded_alone(body: bytes) -> _Seen | None:
    try:
        return _decode(body)
    except msgspec.DecodeError:
        return None


def _word(counts: Counter[str], word: str) -> str:
    return word if word in counts or len(counts) < _MOST_WORDS else OTHERS
