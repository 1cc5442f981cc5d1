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


_decode = msgspec.json.Decoder(_Seen).decode


def _add_records(seen: Survey, entries: bytes, count: int) -> None:
    """A million of these a second is the aim, so no object is made but the two fields."""
    months: Counter[str] = Counter()
    rkey_at, json_at, at = _RKEY.unpack_from, _JSON.unpack_from, 0
    view = memoryview(entries)
    for _ in range(count):
        try:
            key_end = at + 2 + rkey_at(entries, at)[0]
            start = key_end + 4
            at = start + json_at(entries, key_end)[0]
            record = _decode(view[start:at])
        except struct.error:
            raise rca.RcaCut(at, "the data end inside a field") from None
        except msgspec.DecodeError:
            months[UNDATED] += 1  # Not an object, or not JSON: that is for `verify` to tell.
            continue
        created = record.created
        # Counted by their first letters; those that are no month are sorted out by kind below.
        months[created[:8] if isinstance(created, str) else UNDATED] += 1
        if isinstance(record.languages, list):
            _add_languages(seen, record.languages)
    for word, times in months.items():
        month = _MONTH.match(word)
        seen.records_by_month[month.group() if month else UNDATED] += times


def _add_languages(seen: Survey, languages: list[Any]) -> None:
    for word in languages[:_LANGUAGES]:
        if isinstance(word, str) and (language := _LANGUAGE.match(word)):
            name = language.group().lower()
            seen.languages[_word(seen.languages, name)] += 1


def _word(counts: Counter[str], word: str) -> str:
    return word if word in counts or len(counts) < _MOST_WORDS else OTHERS
