"""Segments with made-up repositories, and the rows that they stand for."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import zstandard

from trawlnet.archive.format import rca
from trawlnet.archive.format.index import IndexEntry, encode_index

NOW = 1_700_000_000_000_000
Rows = list[tuple[str, bytes]]  # A record key and its text.
Repos = dict[str, dict[str, Rows]]  # By DID and collection.


def entries_of(rows: Rows) -> bytes:
    return b"".join(
        struct.pack("<H", len(rkey.encode())) + rkey.encode() + struct.pack("<I", len(text)) + text
        for rkey, text in rows
    )


def block_of(did: str, collections: Mapping[str, Rows], at: int = NOW) -> bytes:
    packed = [
        rca.PackedCollection(name, len(rows), zstandard.compress(entries_of(rows)))
        for name, rows in collections.items()
    ]
    return rca.encode_block(did, "https://pds.social", "3jui7kd54zh2y", at, packed)


def write_segment(
    path: Path, blocks: Iterable[tuple[str, bytes]], *, finalise: bool = True
) -> list[int]:
    """Blocks are pairs of a DID and its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body, index = bytearray(rca.encode_header(rca.Header(NOW, 0, 0))), []
    for did, block in blocks:
        index.append(IndexEntry(did, len(body), len(block), crc32(block)))
        body += block
    if finalise:
        section, at = encode_index(index), len(body)
        body += section
        body += rca.encode_footer(rca.Footer(at, len(section), len(index), crc32(section)))
        body[: rca.HEADER_SIZE] = rca.encode_header(rca.Header(NOW, len(index), at))
    path.write_bytes(body)
    return [entry.offset for entry in index]


def made_repos(seed: int, count: int) -> Repos:
    rng = random.Random(seed)
    repos: Repos = {}
    for number in range(count):
        names = rng.sample(
            ["app.bsky.feed.post", "app.bsky.feed.like", "blue.x.y"], rng.randint(0, 3)
        )
        repos[f"did:plc:{seed:04}{number:020}"] = {
            name: [
                (f"k{n:04}~:.", json.dumps({"n": n, "t": "ü" * rng.randint(0, 300)}).encode())
                for n in range(rng.randint(1, 30))
            ]
            for name in names
        }
    return repos


def rows_of(repos: Repos, at: int = NOW) -> list[list[Any]]:
    return sorted(
        [did, name, rkey, text.decode(), at]
        for did, collections in repos.items()
        for name, rows in collections.items()
        for rkey, text in rows
    )


def blocks_of(repos: Repos, at: int = NOW) -> list[tuple[str, bytes]]:
    return [(did, block_of(did, collections, at)) for did, collections in repos.items()]
