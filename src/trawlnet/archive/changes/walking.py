"""Every repository of an archive as of now, in the order of DIDs, one in memory at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trawlnet.archive.blocks import read_block, read_exactly
from trawlnet.archive.census import BlockPlace, current_places, load_tombstones
from trawlnet.archive.changes.states import folded_state
from trawlnet.archive.format import rca
from trawlnet.archive.lookup import is_json
from trawlnet.archive.reader import ArchiveChanged, Damage, NoArchive, find_segments
from trawlnet.archive.tally import open_all

log = logging.getLogger(__name__)

_MOST_LOOKS = 10  # At an archive that is compacted again and again meanwhile.


class CurrentRecord(NamedTuple):
    collection: str
    rkey: str
    cid: bytes | None  # None in a block of version 1, which does not give it.
    json: bytes


@dataclass(frozen=True, slots=True)
class CurrentRepo:
    did: str
    rev: str
    records: Iterator[CurrentRecord]


def walk_repos(
    folder: Path, wants_did: Callable[[str], bool], wants_collection: Callable[[str], bool]
) -> Iterator[CurrentRepo]:
    """Blocking. Records of wanted collections; a repository without any is passed over. What is
    written after the first look is not seen. Damage is logged, and costs what it is in."""
    last, looks = "", 0
    while True:
        try:
            for did, places in _places(folder, last, wants_did):
                if (repo := _repo(did, places, wants_collection)) is not None:
                    yield repo
                last = did
            return
        except (ArchiveChanged, FileNotFoundError):
            # It was compacted: what was not read yet is in other files now.
            looks += 1
            if looks > _MOST_LOOKS:
                raise


def _places(
    folder: Path, after: str, wants_did: Callable[[str], bool]
) -> Iterator[tuple[str, Sequence[BlockPlace]]]:
    damage: list[Damage] = []
    try:
        segments = open_all(find_segments(folder), damage)
    except NoArchive:
        return
    for did, places in current_places(segments, load_tombstones(folder), damage):
        if did > after and wants_did(did):
            yield did, places
        for one in damage:
            _tell(one)
        damage.clear()


def _repo(
    did: str, places: Sequence[BlockPlace], wants: Callable[[str], bool]
) -> CurrentRepo | None:
    if len(places) == 1:
        try:
            block, head = _read(places[0])
        except rca.RcaError as error:
            _tell(Damage(places[0].segment.path, error.offset, error.what))
            return None
        if not any(wants(one.name) for one in head.collections) or head.form is rca.Form.DELTA:
            return None
        if head.form is rca.Form.FIRST:
            return CurrentRepo(did, head.rev, _first_form(block, head, wants))
    found = folded_state(places)
    if isinstance(found, Damage):
        _tell(found)
        return None
    state, damage = found
    for one in damage:
        _tell(one)
    return CurrentRepo(
        did,
        state.rev,
        (
            CurrentRecord(collection, rkey, record.cid, record.json)
            for path, record in state.records.items()
            for collection, _, rkey in [path.decode().partition("/")]
            if wants(collection)
        ),
    )


def _read(place: BlockPlace) -> tuple[bytes, rca.BlockHead]:
    segment, offset = place
    with segment.open() as fd:
        head = read_block(fd, offset, segment.blocks_end, check=True).head
        return read_exactly(fd, head.size, offset), head


def _first_form(
    block: bytes, head: rca.BlockHead, wants: Callable[[str], bool]
) -> Iterator[CurrentRecord]:
    for collection in head.collections:
        if wants(collection.name):
            entries = rca.decompress(block, collection)
            for rkey, json in rca.iter_records(entries, collection.records):
                if is_json(json):
                    yield CurrentRecord(collection.name, rkey, None, json)


def _tell(damage: Damage) -> None:
    log.warning("archive damaged", extra={"place": str(damage)})
