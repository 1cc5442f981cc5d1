"""From CAR to archive block as a user of the libraries writes it: libipld, orjson, zstandard.

Tuned: no generators, types compared and not asked for, runs of a collection kept at hand.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from hashlib import sha256
from typing import Any
from zlib import crc32

import libipld
import orjson
import zstandard

PDS = "https://shard.example.net"
CRAWLED_AT_US = 1_760_000_000_000_000
LEVEL = 3


def peer_block(
    car: bytes, compressor: zstandard.ZstdCompressor, *, verify: bool, keep_cids: bool
) -> bytes:
    header, blocks = libipld.decode_car(car)
    if verify:
        peer_verify(car)
    commit = blocks[header["roots"][0]]
    records: list[tuple[bytes, bytes]] = []
    peer_walk(blocks, commit["data"], records)
    collections: dict[bytes, list[bytes]] = {}
    last, run = b"", []
    for key, cid in records:
        collection, _, rkey = key.partition(b"/")
        if collection != last:
            last, run = collection, collections.setdefault(collection, [])
        record = blocks[cid]
        if not keep_cids:
            peer_strip(record)
        json = orjson.dumps(record, peer_default)
        run += (U16(len(rkey)), rkey, U32(len(json)), json)
    toc, data = [], []
    for name in sorted(collections):
        packed = compressor.compress(b"".join(collections[name]))
        count = len(collections[name]) // 4
        toc.append(packed_string(name.decode()) + struct.pack("<II", count, len(packed)))
        data.append(packed)
    body = b"".join(toc + data)
    names = packed_string(commit["did"]) + packed_string(PDS) + packed_string(commit["rev"])
    head = names + struct.pack("<qHI", CRAWLED_AT_US, len(toc), crc32(body))
    return struct.pack("<I", 4 + len(head) + len(body)) + head + body


U16, U32 = struct.Struct("<H").pack, struct.Struct("<I").pack


def peer_strip(value: Any) -> None:
    if type(value) is dict:
        if "cid" in value and "uri" in value:
            del value["cid"]
        value = value.values()
    for item in value:
        if type(item) is dict or type(item) is list:
            peer_strip(item)


def peer_verify(car: bytes) -> None:
    """libipld does not check hashes and keeps no raw blocks: the frames are read once more."""
    at, end = 0, len(car)
    is_header = True
    while at < end:
        size = shift = 0
        while True:
            byte = car[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if not is_header and sha256(car[at + 36 : at + size]).digest() != car[at + 4 : at + 36]:
            raise ValueError("hash mismatch")
        is_header = False
        at += size


def peer_walk(blocks: dict[bytes, Any], root: bytes, found: list[tuple[bytes, bytes]]) -> None:
    node = blocks[root]
    if node["l"] is not None:
        peer_walk(blocks, node["l"], found)
    key = b""
    for entry in node["e"]:
        key = key[: entry["p"]] + entry["k"]
        found.append((key, entry["v"]))
        if entry["t"] is not None:
            peer_walk(blocks, entry["t"], found)


def peer_default(value: Any) -> Any:
    # Both links and byte strings arrive as bytes.
    if isinstance(value, bytes) and len(value) == 36 and value[0] == 1:
        return {"$link": libipld.encode_cid(value)}
    return {"$bytes": b64encode(value).decode()}


def packed_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<H", len(raw)) + raw
