"""The blocks of a frame and the commit among them, read as strictly as the C code reads them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from trawlnet.atproto.cbor_items import (
    BYTES,
    MAP,
    SHA256_LINK,
    TEXT,
    car_root,
    read_head,
    read_span,
    skip,
)
from trawlnet.atproto.cid import read_cid
from trawlnet.atproto.firehose.items_plain import read_link
from trawlnet.atproto.firehose.limits import MAX_COMMIT_FIELDS
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.syntax import is_did, is_tid
from trawlnet.atproto.varint import read_varint
from trawlnet.malformed import Malformed

_SIGNATURE = 64
_VERSION = 3


@dataclass(frozen=True, slots=True)
class BlockSlice:
    root: bytes
    blocks: dict[bytes, bytes]  # By CID; only DAG-CBOR under SHA-256.


@dataclass(frozen=True, slots=True)
class SignedCommit:
    did: str
    rev: str
    data: bytes
    unsigned: bytes
    signature: bytes


def read_blocks(car: bytes) -> BlockSlice:
    try:
        root, at = _read_header(car)
        hashed: list[tuple[bytes, bytes]] = []
        blocks: dict[bytes, bytes] = {}
        while at < len(car):
            size, start = read_varint(car, at)
            at = start + size
            if at > len(car):
                raise Malformed("a block is cut")
            frame = car[start:at]
            cid, end = read_cid(frame, 0)
            if _is_sha256(cid.raw):
                hashed.append((cid.raw[-32:], frame[end:]))
            if cid.raw[:4] == SHA256_LINK:
                # A block may be there twice; the first one counts.
                blocks.setdefault(cid.raw, frame[end:])
    except Malformed:
        raise FrameRefused(Refusal.BAD_CAR) from None
    if any(sha256(data).digest() != digest for digest, data in hashed):
        raise FrameRefused(Refusal.HASH_MISMATCH)
    return BlockSlice(root, blocks)


def _is_sha256(cid: bytes) -> bool:
    _, codec_end = read_varint(cid, 1)
    return cid[codec_end:-32] == b"\x12\x20"


def _read_header(car: bytes) -> tuple[bytes, int]:
    size, start = read_varint(car, 0)
    header = car[start : start + size]
    if len(header) != size:
        raise Malformed("the header is cut")
    return SHA256_LINK + car_root(header), start + size


def read_signed_commit(block: bytes | None) -> SignedCommit:
    if block is None:
        raise FrameRefused(Refusal.MISSING_COMMIT)
    try:
        return _read_commit(block)
    except Malformed:
        raise FrameRefused(Refusal.BAD_COMMIT) from None


def _read_commit(data: bytes) -> SignedCommit:
    head = read_head(data, 0)
    if head.major != MAP or head.argument > MAX_COMMIT_FIELDS:
        raise Malformed("the commit is no small map")
    at = head.end
    values: dict[bytes, int] = {}
    parts = [bytes((MAP << 5 | max(head.argument - 1, 0),))]
    for _ in range(head.argument):
        start = at
        name, value = read_span(data, at, TEXT)
        at = skip(data, value, 1)
        if name in values and name in (b"did", b"rev", b"sig", b"data", b"version"):
            raise Malformed(f"the commit has {name!r} twice")
        values[name] = value
        if name != b"sig":
            parts.append(data[start:at])
    if at != len(data) or not values.keys() >= {b"did", b"rev", b"sig", b"data", b"version"}:
        raise Malformed("bytes follow the commit, or it lacks a field")
    version = read_head(data, values[b"version"])
    signature, _ = read_span(data, values[b"sig"], BYTES)
    did = read_span(data, values[b"did"], TEXT)[0].decode("latin-1")
    rev = read_span(data, values[b"rev"], TEXT)[0].decode("latin-1")
    if version.major != 0 or version.argument != _VERSION or len(signature) != _SIGNATURE:
        raise Malformed("a commit of another version, or a signature of another length")
    if not is_did(did) or not is_tid(rev):
        raise Malformed("the commit's did or rev is malformed")
    return SignedCommit(did, rev, read_link(data, values[b"data"]), b"".join(parts), signature)
