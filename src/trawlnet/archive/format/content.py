"""What comes out of a repository's CAR: records as JSON by collection, or why there is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MAX_COLLECTIONS = 65_535  # The archive counts them in 16 bits.
FRAME_COST = 64  # Bytes charged against the memory limit for each frame's place in the index.
COLLECTION_COST = 64

_MIB = 1 << 20
LIMIT_REACHED = "the memory limit is reached"  # The detail of OVER_LIMIT, as the C code has it.


class RepoErrorKind(StrEnum):
    """Why a whole repository is refused."""

    TRUNCATED = "truncated"  # The CAR ends inside its header or a frame.
    BAD_CAR = "bad_car"
    HASH_MISMATCH = "hash_mismatch"
    MISSING_BLOCK = (
        "missing_block"  # Cut between frames, a partial export, or a race on the server.
    )
    BAD_COMMIT = "bad_commit"
    UNSUPPORTED_VERSION = "unsupported_version"
    BAD_TREE = "bad_tree"
    OVER_LIMIT = "over_limit"


class DropReason(StrEnum):
    """Why one record is left out."""

    BAD_PATH = "bad_path"
    BAD_COLLECTION = "bad_collection"
    BAD_RKEY = "bad_rkey"
    BAD_CID = "bad_cid"
    BAD_CBOR = "bad_cbor"
    BAD_UTF8 = "bad_utf8"
    NOT_A_MAP = "not_a_map"
    DUPLICATE_KEY = "duplicate_key"
    INT_RANGE = "int_range"
    TOO_DEEP = "too_deep"
    TOO_LARGE = "too_large"


# The C code numbers both from 1, in this order.
ERROR_KINDS = tuple(RepoErrorKind)
DROP_REASONS = tuple(DropReason)


class RepoError(Exception):
    """The bytes are not a repository that can be archived."""

    def __init__(self, kind: RepoErrorKind, detail: str, place: int) -> None:
        super().__init__(f"{kind} at byte {place}: {detail}")
        self.kind = kind
        self.detail = detail
        self.place = place


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    verify_hashes: bool = True  # And the layers of the tree, which are hashes of its keys.
    keep_cids: bool = False  # Otherwise the `cid` of strong references is left out.
    collections: tuple[str, ...] = ()  # Patterns, `*` for any run of characters; none means all.
    max_record: int = _MIB
    max_json: int = 2 * _MIB
    memory_limit: int = 1024 * _MIB  # For the index and the output, on top of the CAR itself.
    proof: bool = False  # Keep what proves the records later; then every `cid` is kept, too.

    def __post_init__(self) -> None:
        if min(self.max_record, self.max_json, self.memory_limit) < 0 or self.max_json >> 32:
            raise ValueError("limits must not be negative, and that of JSON under 4 GiB")


class CollectionContent(NamedTuple):
    name: str
    records: int
    data: memoryview  # [u16 length, rkey][u32 length, JSON] for each record, in key order.


class ProofParts(NamedTuple):
    """What the records of a repository do not say by themselves; `proof.py` has its bytes."""

    sums: bytes
    exceptions: bytes


@dataclass(frozen=True, slots=True)
class RepoContent:
    did: str
    rev: str
    root: bytes  # CID of the commit, binary.
    unsigned_commit: bytes  # What the signature covers.
    signature: bytes
    collections: Sequence[CollectionContent]  # By name; none is empty.
    records: int
    filtered: int  # Records of collections that no pattern matched.
    dropped: Mapping[DropReason, int]  # Only reasons that occurred.
    proof: ProofParts | None = None


class PackJob(NamedTuple):
    """A CAR of which the block is wanted."""

    car: bytes | bytearray | memoryview
    memory_limit: int  # In place of that of the options.
    pds: str
    crawled_at_us: int
    key: bytes = b""  # That signed the commit, as far as is known: curve and point.


class Packed(NamedTuple):
    """A sound repository as a block, and what is asked about it afterwards."""

    did: str
    rev: str
    unsigned_commit: bytes
    signature: bytes
    records: int
    collections: int
    dropped: Mapping[DropReason, int]
    block: bytes
