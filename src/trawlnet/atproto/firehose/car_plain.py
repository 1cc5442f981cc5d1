"""The blocks of a frame and the commit among them, read as strictly as the C code reads them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from trawlnet.atproto.cbor_items import SHA256_LINK, car_root
from trawlnet.atproto.cid import read_cid
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.repository.commit_plain import SignedCommit, read_commit
from trawlnet.atproto.varint import read_varint
from trawlnet.malformed import Malformed


@dataclass(frozen=True, slots=True)
class BlockSlice:
    root: bytes
    blocks: dict[bytes, bytes]  # By CID; only DAG-CBOR under SHA-256.


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
        return read_commit(block)
    except Malformed:
        raise FrameRefused(Refusal.BAD_COMMIT) from None
