"""From the CAR that a server sent to the block that is archived, or why there is none.

Everything here is for the thread pool: it takes long, and the native part leaves the lock of the
interpreter to others meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trawlnet.archive.format.content import (
    LIMIT_REACHED,
    ExtractOptions,
    Packed,
    PackJob,
    RepoError,
    RepoErrorKind,
)
from trawlnet.archive.format.proof import key_bytes, with_key
from trawlnet.archive.format.repoblock import Buffer, backend, pack
from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.crawlers.repos.config import ReposConfig, Verify
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.net.trouble import clean

_ROOM = 2  # Times the CAR: more than JSON and an index of it take, unless made to take more.
_LEAST_ROOM = 1 << 20
_MOST_ROOM = 3  # Times the largest CAR; what takes more is refused,
_LEAST_MOST = 64 << 20  # but never, by this limit, what takes less.
_ALWAYS_ALLOWED = 4 << 20  # Bytes, however small the CAR is that becomes so much.

# What is read where it is, on the event loop, stops nobody else for longer than a few milliseconds:
# a few times its size of JSON at most, compressed at a level that is quick.
_SMALL = 64 << 10  # Bytes; less work than handing it to another thread.
_SMALL_ROOM = 4  # Times the CAR, and
_SMALL_LEAST_ROOM = 16 << 10
_QUICK_LEVEL = 6  # Of zstd; each step beyond takes up to four times as long.


@dataclass(frozen=True, slots=True)
class PackOptions:
    """How blocks are made in this crawl."""

    options: ExtractOptions
    verify: Verify
    zstd_level: int
    expansion: float  # A repository may take so many times its own size of memory.


@dataclass(frozen=True, slots=True)
class RepoBlock:
    """A finished block of the archive, and what is worth knowing about it."""

    did: str
    rev: str
    block: bytes
    records: int
    collections: int
    dropped: Mapping[str, int]  # Records left out, by why.
    unsigned_commit: bytes = b""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A sound repository that the key we have did not sign: it may have a newer one."""

    block: RepoBlock
    unsigned_commit: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class PackRefused:
    reason: Reason
    detail: str
    cramped: bool = False  # It may have taken no more memory than is allowed, had that been there.

    def outcome(self) -> Outcome:
        return Outcome(self.reason, detail=clean(self.detail))


def pack_options(config: ReposConfig) -> PackOptions:
    options = ExtractOptions(
        verify_hashes=config.verify is not Verify.OFF,
        keep_cids=config.keep_cids,
        proof=config.rca_version > 1,
        collections=config.collections,
        memory_limit=max(_LEAST_MOST, _MOST_ROOM * config.max_repo_size),
    )
    return PackOptions(options, config.verify, config.zstd_level, config.max_expansion)


@dataclass(frozen=True, slots=True)
class RepoOwner:
    did: str
    pds: str
    key: str  # did:key, or empty.
    at_us: int  # When it was fetched.


def usual_room(car: Buffer, packing: PackOptions) -> int:
    """Bytes of memory with which all but odd repositories can be read."""
    return min(max(_LEAST_ROOM, _ROOM * len(car)), most_room(car, packing))


def most_room(car: Buffer, packing: PackOptions) -> int:
    """Beyond this one is refused: the work that a server can cause is in proportion to what it
    sends, since blocks are read once, and what is written for them takes this room."""
    allowed = max(_ALWAYS_ALLOWED, int(packing.expansion * len(car)))
    return min(allowed, packing.options.memory_limit)


def room_at_once(car: Buffer, packing: PackOptions) -> int | None:
    """Bytes of memory for one that is read on the event loop; None for one that must not be."""
    if len(car) > _SMALL or packing.zstd_level > _QUICK_LEVEL or backend() != "native":
        return None
    return max(_SMALL_LEAST_ROOM, _SMALL_ROOM * len(car))


class CarReading(NamedTuple):
    """A CAR to be read in no more than `room` bytes of memory on top of its own."""

    car: Buffer
    whose: RepoOwner
    packing: PackOptions
    room: int


def read_car(reading: CarReading) -> RepoBlock | Doubt | PackRefused:
    """All checks, then the block."""
    return read_cars([(reading,)])[0]


def read_cars(readings: Sequence[tuple[CarReading]]) -> list[RepoBlock | Doubt | PackRefused]:
    """The same for several of one crawl."""
    packing = readings[0][0].packing
    jobs = [
        PackJob(one.car, one.room, one.whose.pds, one.whose.at_us, _key_kept(one))
        for (one,) in readings
    ]
    made = pack(jobs, packing.options, packing.zstd_level)
    return [_judged(one, packed) for (one,), packed in zip(readings, made, strict=True)]


def _judged(
    reading: CarReading, packed: Packed | RepoError | ValueError
) -> RepoBlock | Doubt | PackRefused:
    _, whose, packing, _ = reading
    if isinstance(packed, RepoError):
        if packed.detail == LIMIT_REACHED:
            return _over_limit(reading)
        return PackRefused(_REASONS.get(packed.kind, Reason.PARSE_ERROR), str(packed))
    if isinstance(packed, ValueError):
        return PackRefused(Reason.TOO_LARGE, f"more than the archive format can hold: {packed}")
    if packed.did != whose.did:
        return PackRefused(Reason.PARSE_ERROR, f"a repository of {packed.did}")
    block = RepoBlock(
        packed.did,
        packed.rev,
        packed.block,
        packed.records,
        packed.collections,
        {str(reason): count for reason, count in packed.dropped.items()},
        packed.unsigned_commit,
    )
    doubt = Doubt(block, packed.unsigned_commit, packed.signature)
    return doubt if packing.verify is Verify.FULL and not is_signed(doubt, whose.key) else block


def _key_kept(reading: CarReading) -> bytes:
    """The key that goes into the block: the one that its signature is about to be verified with."""
    if not reading.packing.options.proof or reading.packing.verify is not Verify.FULL:
        return b""
    try:
        return key_bytes(parse_did_key(reading.whose.key))
    except Malformed:
        return b""


def signed_by(block: RepoBlock, key: str) -> RepoBlock:
    """The same with the key that did sign it, where it keeps one."""
    return replace(block, block=with_key(block.block, key_bytes(parse_did_key(key))))


def _over_limit(reading: CarReading) -> PackRefused:
    car, _, packing, room = reading
    most = most_room(car, packing)
    if most == packing.options.memory_limit:
        key = "three times max_repo_size"
    else:
        key = f"max_expansion is {packing.expansion:g}"
    detail = f"{len(car)} bytes become more than {most} of JSON and index ({key})"
    return PackRefused(Reason.TOO_LARGE, detail, cramped=room < most)


_REASONS = {
    RepoErrorKind.TRUNCATED: Reason.TRUNCATED,
    # Cut between two blocks, or written to while it was read; a second look tells.
    RepoErrorKind.MISSING_BLOCK: Reason.TRUNCATED,
    RepoErrorKind.OVER_LIMIT: Reason.TOO_LARGE,
}


def is_signed(doubt: Doubt, key: str) -> bool:
    try:
        return parse_did_key(key).verifies(doubt.signature, doubt.unsigned_commit)
    except Malformed:
        return False
