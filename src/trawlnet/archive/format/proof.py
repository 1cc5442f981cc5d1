"""The proof of a block of version 2: its key and signature, two sums over each group of records,
and exceptions, which are all that the records do not give back by themselves.

A record's number is the first 61 bits of its digest, its place counts from 1 within its group. The
first sum is that of the numbers, the second that of each times its place, both modulo 2^61 - 1: if
one record was changed, the quotient of the differences is its place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from trawlnet.archive.format import rca
from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.atproto.dagcbor import head, link
from trawlnet.atproto.identity.keys import Curve, PublicKey, public_key
from trawlnet.malformed import Malformed
from trawlnet.native.zstd import ZstdError, read_frame

GROUP = 256
MODULUS = (1 << 61) - 1
KEY_BYTES = 34
SIGNATURE_BYTES = 64
_SUMS = struct.Struct("<QQ")
_EXCEPTION = struct.Struct("<BI")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_DIGEST = 32
_SIG = b"\x63sig\x58\x40"  # The field of a signature, and that 64 bytes follow.
_CURVES = {Curve.P256: 1, Curve.K256: 2}


class ExceptionKind(IntEnum):
    RECORD = 1  # The bytes of the next record, whose JSON does not give them.
    LEFT_OUT = 2  # The path and CID of a record that is not in the archive.
    SUBTREE = 3  # The layer and digest of a node whose records were all filtered out.
    COMMIT = 4  # The bytes of a commit that is not of the usual form.
    NODE = 5  # The bytes of a node, the root first; all of them, where one is odd.
    DELETED = 6  # The path of a record that a delta takes away.
    UNSEEN = 7  # Records of collections that are not archived have changed, and nobody noted how.


class ProofException(NamedTuple):
    kind: ExceptionKind
    place: int  # Records that come before it.
    data: bytes  # Of a record, a commit, a node; a CID, or a digest.
    path: bytes = b""
    layer: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    key: bytes  # Curve and point; empty if the signature was not verified.
    signature: bytes
    sums: bytes
    exceptions: bytes  # Unpacked.


def encode_proof(proof: Proof, compress: Callable[[bytes], bytes]) -> bytes:
    packed = compress(proof.exceptions) if proof.exceptions else b""
    return b"".join((proof.key.ljust(KEY_BYTES, b"\0"), proof.signature, proof.sums, packed))


def parse_proof(data: bytes, records: int) -> Proof:
    """Raises RcaError, its place counted from the start of the proof."""
    sums = KEY_BYTES + SIGNATURE_BYTES
    frame = sums + -(-records // GROUP) * _SUMS.size
    if len(data) < frame:
        raise rca.RcaCut(0, f"a proof of {len(data)} bytes, {frame} for {records} records")
    exceptions = b""
    if len(data) > frame:
        try:
            exceptions = read_frame(memoryview(data)[frame:], rca.MAX_DECOMPRESSED)
        except ZstdError as error:
            raise rca.RcaError(frame, f"exceptions that are no readable zstd: {error}") from None
    key = data[:KEY_BYTES]
    return Proof(key if any(key) else b"", data[KEY_BYTES:sums], data[sums:frame], exceptions)


def key_bytes(key: PublicKey) -> bytes:
    return bytes((_CURVES[key.curve],)) + key.point


def parse_key(data: bytes) -> PublicKey:
    """Raises Malformed."""
    for curve, number in _CURVES.items():
        if len(data) == KEY_BYTES and data[0] == number:
            return public_key(curve, data[1:])
    raise Malformed("a key of an unknown kind")


def with_key(block: bytes, key: bytes) -> bytes:
    """The same block with another key; one that has no place for it as it is."""
    parsed = rca.parse_block(block)
    if not parsed.form:
        return block
    changed = bytearray(block)
    changed[parsed.proof_start : parsed.proof_start + KEY_BYTES] = key.ljust(KEY_BYTES, b"\0")
    crc = rca.block_crc(parsed, changed)
    changed[parsed.crc_end - 4 : parsed.crc_end] = crc.to_bytes(4, "little")
    return bytes(changed)


def iter_exceptions(data: bytes) -> Iterator[ProofException]:
    """Raises RcaError, its place counted from the start of them, for what is cut or unknown."""
    at = place = 0
    while at < len(data):
        start = at
        try:
            number, since = _EXCEPTION.unpack_from(data, at)
            kind = ExceptionKind(number)
            place += since
            found, at = _read_exception(kind, place, data, at + _EXCEPTION.size)
        except (struct.error, IndexError):
            raise rca.RcaCut(start, "the exceptions end inside of one") from None
        except ValueError:
            raise rca.RcaError(start, "an exception of a kind that is not known") from None
        yield found
        place += kind is ExceptionKind.RECORD


def _read_exception(
    kind: ExceptionKind, place: int, data: bytes, at: int
) -> tuple[ProofException, int]:
    path, layer = b"", 0
    if kind is ExceptionKind.UNSEEN:
        return ProofException(kind, place, b""), at
    if kind in (ExceptionKind.LEFT_OUT, ExceptionKind.DELETED):
        path, at = _read_bytes(data, at + _U16.size, _U16.unpack_from(data, at)[0])
    if kind is ExceptionKind.DELETED:
        return ProofException(kind, place, b"", path), at
    if kind is ExceptionKind.LEFT_OUT:
        cid, at = _read_bytes(data, at + 1, data[at])
        return ProofException(kind, place, cid, path), at
    if kind is ExceptionKind.SUBTREE:
        layer = data[at]
        digest, at = _read_bytes(data, at + 1, _DIGEST)
        return ProofException(kind, place, digest, layer=layer), at
    found, at = _read_bytes(data, at + _U32.size, _U32.unpack_from(data, at)[0])
    return ProofException(kind, place, found), at


def _read_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise IndexError
    return data[at : at + size], at + size


def encode_exceptions(exceptions: list[ProofException]) -> bytes:
    out = bytearray()
    before = 0
    for one in exceptions:
        out += encode_exception(one, one.place - before)
        before = one.place + (one.kind is ExceptionKind.RECORD)
    return bytes(out)


def encode_exception(one: ProofException, since: int) -> bytes:
    start = _EXCEPTION.pack(one.kind, since)
    match one.kind:
        case ExceptionKind.LEFT_OUT:
            path = _U16.pack(len(one.path)) + one.path
            return start + path + bytes((len(one.data),)) + one.data
        case ExceptionKind.DELETED:
            return start + _U16.pack(len(one.path)) + one.path
        case ExceptionKind.UNSEEN:
            return start
        case ExceptionKind.SUBTREE:
            return start + bytes((one.layer,)) + one.data
        case _:
            return start + _U32.pack(len(one.data)) + one.data


class SumsMaker:
    """The sums over records, added one by one in the order of the tree."""

    def __init__(self) -> None:
        self._sums = bytearray()
        self._count = self._sum = self._weighted = 0

    def add(self, digest: bytes) -> None:
        number = int.from_bytes(digest[:8], "little") & MODULUS
        place = self._count % GROUP + 1
        self._count += 1
        self._sum += number
        self._weighted += number * place
        if place == GROUP:
            self._end()

    def finish(self) -> bytes:
        if self._count % GROUP:
            self._end()
        return bytes(self._sums)

    def _end(self) -> None:
        self._sums += _SUMS.pack(self._sum % MODULUS, self._weighted % MODULUS)
        self._sum = self._weighted = 0


class ChangedRecords(NamedTuple):
    """Among these records one is changed, or several are; of one, which."""

    start: int
    end: int


def changed_records(stored: bytes, found: bytes, records: int) -> list[ChangedRecords]:
    """Where two rows of sums of as many records differ."""
    changed = []
    for group, (one, other) in enumerate(
        zip(_SUMS.iter_unpack(stored), _SUMS.iter_unpack(found), strict=True)
    ):
        if one == other:
            continue
        start = group * GROUP
        end = min(start + GROUP, records)
        first, second = (a - b for a, b in zip(other, one, strict=True))
        place = second * pow(first, -1, MODULUS) % MODULUS if first % MODULUS else 0
        if 1 <= place <= end - start:
            changed.append(ChangedRecords(start + place - 1, start + place))
        else:
            changed.append(ChangedRecords(start, end))
    return changed


def usual_commit(did: str, rev: str, root: bytes, signature: bytes) -> bytes:
    """The commit that a repository has unless an exception says another."""
    names, rest = _commit_parts(did, rev, root)
    return b"\xa6" + names + _SIG + signature + rest


def usual_forms(did: str, rev: str, root: bytes, signature: bytes) -> tuple[bytes, bytes]:
    """What its signature covers, and the commit itself: at once, for it is asked for both of every
    repository."""
    names, rest = _commit_parts(did, rev, root)
    return b"\xa5" + names + rest, b"\xa6" + names + _SIG + signature + rest


def _commit_parts(did: str, rev: str, root: bytes) -> tuple[bytes, bytes]:
    """What comes before the signature, and what behind it."""
    text, instant = did.encode(), rev.encode()
    names = b"\x63did" + head(3, len(text)) + text + b"\x63rev" + head(3, len(instant)) + instant
    return names, b"\x64data" + link(SHA256_LINK + root) + b"\x64prev\xf6\x67version\x03"


def tree_name(collection: str) -> bytes:
    """Collections come in this order in the tree, for a slash is behind each in its keys."""
    return collection.encode() + b"/"
