"""Small repo blocks and archives for tests."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

import zstandard

from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.format import rca
from trawlnet.archive.reader import find_segments, open_segment
from trawlnet.archive.segment_file import check
from trawlnet.archive.writer import SEGMENT_BYTES, SegmentWriter

NOW = 1_700_000_000.0
PDS = "https://pds.example"
REV = "3lscuqc52or2x"


def pack(name: str, records: Mapping[str, bytes]) -> rca.PackedCollection:
    entries = b"".join(
        struct.pack("<H", len(rkey)) + rkey.encode() + struct.pack("<I", len(json)) + json
        for rkey, json in records.items()
    )
    return rca.PackedCollection(name, len(records), zstandard.compress(entries))


def make_block(
    did: str, crawled_at_us: int = 1, collections: Mapping[str, Mapping[str, bytes]] | None = None
) -> bytes:
    if collections is None:
        text = b'{"text":"%s at %d"}' % (did.encode(), crawled_at_us)
        collections = {
            "app.bsky.feed.post": {"3ka": text, "3kb": b'{"text":"two"}'},
            "app.bsky.actor.profile": {"self": b'{"displayName":"x"}'},
        }
    packed = [pack(name, records) for name, records in collections.items()]
    return rca.encode_block(did, PDS, REV, crawled_at_us, packed)


def writer_of(folder: Path, segment_bytes: int = SEGMENT_BYTES) -> SegmentWriter:
    return SegmentWriter(folder, lambda: NOW, segment_bytes)


def write(folder: Path, blocks: Iterable[bytes], segment_bytes: int = SEGMENT_BYTES) -> None:
    """Append and finalise."""
    writer = writer_of(folder, segment_bytes)
    writer.append([check(block) for block in blocks])
    writer.close()


def dids_in(folder: Path) -> list[str]:
    """Of every sound block, in the order written."""
    found = []
    if not any(folder.glob("*.rca")):
        return []
    for path in find_segments(folder):
        segment = open_segment(path)
        with segment.open() as fd:
            blocks = segment.blocks(fd, check=True)
            found += [block.head.did for block in blocks if isinstance(block, FoundBlock)]
    return found
