"""The plain twin of the C extraction: the same output, the same counts, the same refusals."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from hashlib import sha256

from trawlnet.archive.format import rca
from trawlnet.archive.format.content import (
    COLLECTION_COST,
    FRAME_COST,
    LIMIT_REACHED,
    MAX_COLLECTIONS,
    CollectionContent,
    DropReason,
    ExtractOptions,
    RepoContent,
    RepoError,
    RepoErrorKind,
)
from trawlnet.archive.format.json_cbor_plain import gives_back
from trawlnet.archive.format.json_plain import RecordDropped, record_json
from trawlnet.archive.format.proof import Proof, encode_proof
from trawlnet.archive.format.proof_plain import ProofNotes
from trawlnet.archive.format.tree_plain import Leaf, StoredBlock, walk
from trawlnet.atproto.cbor_items import SHA256_LINK, car_root
from trawlnet.atproto.cid import read_cid
from trawlnet.atproto.repository.commit_plain import (
    SignedCommit,
    UnsupportedVersion,
    read_commit,
)
from trawlnet.atproto.syntax import is_nsid, is_record_key
from trawlnet.malformed import Malformed
from trawlnet.native.zstd import FrameWriter

_SHA_256 = b"\x12\x20"
_per_thread = threading.local()


@dataclass(slots=True)
class _CollectionRun:
    """The records of one collection; keys come sorted, so each collection is one run."""

    name: str
    records: int = 0
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Extraction:
    car: bytes
    options: ExtractOptions
    wanted: re.Pattern[str]
    blocks: dict[bytes, StoredBlock] = field(default_factory=dict)
    cost: int = 0
    runs: list[_CollectionRun] = field(default_factory=list)
    filtered: int = 0
    dropped: dict[DropReason, int] = field(default_factory=dict)
    notes: ProofNotes | None = None

    def charge(self, amount: int, place: int) -> None:
        if self.cost + amount > self.options.memory_limit:
            raise RepoError(RepoErrorKind.OVER_LIMIT, LIMIT_REACHED, place)
        self.cost += amount

    def drop(self, reason: DropReason, leaf: Leaf) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self.leave_out(leaf, dropped=True)

    def leave_out(self, leaf: Leaf, *, dropped: bool = False) -> None:
        if self.notes is not None:
            self.notes.left_out(leaf, dropped=dropped)


def extract(car: bytes | bytearray | memoryview, options: ExtractOptions) -> RepoContent:
    x = _Extraction(bytes(car), options, _any_of(options.collections))
    root = _load_car(x)
    commit = _read_commit(x.blocks.get(root))
    notes = x.notes = ProofNotes(x.charge) if options.proof else None
    if notes is not None:
        notes.commit(commit.did, commit.rev, commit.data, commit.signature, x.blocks[root])
    for leaf in walk(x.blocks, commit.data, check_layers=options.verify_hashes, watcher=notes):
        _add_record(x, leaf)
    full = sorted((run for run in x.runs if run.records), key=lambda run: run.name)
    return RepoContent(
        did=commit.did,
        rev=commit.rev,
        root=SHA256_LINK + root,
        unsigned_commit=commit.unsigned,
        signature=commit.signature,
        collections=[
            CollectionContent(run.name, run.records, memoryview(run.data).toreadonly())
            for run in full
        ],
        records=sum(run.records for run in full),
        filtered=x.filtered,
        dropped=x.dropped,
        proof=notes.finish(x.blocks, commit.data) if notes else None,
    )


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    texts = [".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns or ("*",)]
    return re.compile("|".join(f"(?:{text})" for text in texts), re.DOTALL)


# The CAR: header, frames, index.


def _load_car(x: _Extraction) -> bytes:
    root, at = _read_header(x)
    hashed = []
    while at < len(x.car):
        start = at
        length, at = _length(x, at)
        frame = x.car[at : at + length]
        at += length
        try:
            cid, end = read_cid(frame, 0)
        except Malformed:
            raise RepoError(RepoErrorKind.BAD_CAR, "no CIDv1 begins a frame", start) from None
        x.charge(FRAME_COST, start)
        block = StoredBlock(at - length + end, frame[end:])
        digest = cid.raw[-32:]
        if _is_sha256(cid.raw):
            hashed.append((digest, block))
        if cid.raw[:4] == SHA256_LINK:
            # A repeated block is legal; the first one counts.
            x.blocks.setdefault(digest, block)
    if x.options.verify_hashes:
        _verify_hashes(hashed)
    return root


def _is_sha256(cid: bytes) -> bool:
    # Version and codec are varints: the hash's code and length must be all that follows them.
    codec_end = 1
    while cid[codec_end] & 0x80:
        codec_end += 1
    return cid[codec_end + 1 : -32] == _SHA_256


def _length(x: _Extraction, at: int) -> tuple[int, int]:
    """The length before a header or frame, whose bytes are all there, and where they begin."""
    value = 0
    for taken in range(9):
        if at + taken >= len(x.car):
            raise RepoError(RepoErrorKind.TRUNCATED, "a length is cut", at)
        byte = x.car[at + taken]
        value |= (byte & 0x7F) << (7 * taken)
        if byte < 0x80:
            break
    if byte >= 0x80 or (byte == 0 and taken):
        raise RepoError(RepoErrorKind.BAD_CAR, "a length is no varint", at)
    start = at + taken + 1
    if value > len(x.car) - start:
        raise RepoError(RepoErrorKind.TRUNCATED, "a frame is cut", at)
    return value, start


def _read_header(x: _Extraction) -> tuple[bytes, int]:
    length, start = _length(x, 0)
    try:
        return car_root(x.car[start : start + length]), start + length
    except Malformed as error:
        raise RepoError(RepoErrorKind.BAD_CAR, str(error), start) from None


def _verify_hashes(hashed: list[tuple[bytes, StoredBlock]]) -> None:
    for digest, block in hashed:
        if sha256(block.data).digest() != digest:
            raise RepoError(RepoErrorKind.HASH_MISMATCH, "bytes do not hash to the CID", block.at)


def _read_commit(block: StoredBlock | None) -> SignedCommit:
    if block is None:
        raise RepoError(RepoErrorKind.MISSING_BLOCK, "the commit is not in the CAR", 0)
    try:
        return read_commit(block.data)
    except UnsupportedVersion as error:
        raise RepoError(RepoErrorKind.UNSUPPORTED_VERSION, str(error), block.at) from None
    except Malformed as error:
        raise RepoError(RepoErrorKind.BAD_COMMIT, str(error), block.at) from None


# The records.


def _add_record(x: _Extraction, leaf: Leaf) -> None:
    key, block, _ = leaf
    name, slash, rkey = key.decode("latin-1").partition("/")
    if not slash:
        return x.drop(DropReason.BAD_PATH, leaf)
    is_open = bool(x.runs) and x.runs[-1].name == name
    if not is_open and not is_nsid(name):
        return x.drop(DropReason.BAD_COLLECTION, leaf)
    if not is_open and not x.wanted.fullmatch(name):
        x.filtered += 1
        return x.leave_out(leaf)
    if not is_record_key(rkey):
        return x.drop(DropReason.BAD_RKEY, leaf)
    if block is None:
        return x.drop(DropReason.BAD_CID, leaf)
    if block.dropped is not None:
        return x.drop(block.dropped, leaf)
    if not is_open:
        _open_run(x, name, block.at)
    try:
        # The same block may stand under any number of keys: it is read once.
        json = block.json = block.json or _checked_json(x.options, block.data)
    except RecordDropped as drop:
        block.dropped = drop.reason
        return x.drop(drop.reason, leaf)
    run = x.runs[-1]
    entry = len(rkey).to_bytes(2, "little") + rkey.encode() + len(json).to_bytes(4, "little") + json
    run.data += entry
    run.records += 1
    x.charge(len(entry), block.at)
    if x.notes is not None:
        x.notes.kept(leaf, block, odd=not gives_back(json, block.data))
    return None


def _open_run(x: _Extraction, name: str, place: int) -> None:
    if len(x.runs) == MAX_COLLECTIONS:
        raise RepoError(RepoErrorKind.OVER_LIMIT, "too many collections", place)
    x.runs.append(_CollectionRun(name))
    x.charge(COLLECTION_COST + len(name), place)


def _checked_json(options: ExtractOptions, data: bytes) -> bytes:
    if len(data) > options.max_record:
        raise RecordDropped(DropReason.TOO_LARGE)
    json = record_json(data, keep_cids=options.keep_cids or options.proof)
    if len(json) > options.max_json:
        raise RecordDropped(DropReason.TOO_LARGE)
    return json


def encode_content(
    content: RepoContent, pds: str, crawled_at_us: int, zstd_level: int, key: bytes = b""
) -> bytes:
    compress = _compressor(zstd_level).frame
    packed = [
        rca.PackedCollection(name, records, compress(data))
        for name, records, data in content.collections
    ]
    proof = None
    if content.proof is not None:
        parts = Proof(key, content.signature, *content.proof)
        proof = encode_proof(parts, compress)
    return rca.encode_block(content.did, pds, content.rev, crawled_at_us, packed, proof)


def _compressor(level: int) -> FrameWriter:
    """One per thread and level: making one costs more than a small repository."""
    compressors: dict[str, FrameWriter] = _per_thread.__dict__
    key = f"level {level}"
    if key not in compressors:
        compressors[key] = FrameWriter(level, False)
    return compressors[key]
