"""Content identifiers: the hash of a block, with what it hashes and how."""

from __future__ import annotations

from base64 import b32decode
from binascii import Error as BadBase32
from dataclasses import dataclass
from hashlib import sha256

from libipld import encode_multibase

from trawlnet.atproto.varint import read_varint
from trawlnet.malformed import Malformed

DAG_CBOR = 0x71
RAW = 0x55
_SHA_256 = 0x12
_PREFIX = {codec: bytes((1, codec, _SHA_256, 32)) for codec in (DAG_CBOR, RAW)}
_LONGEST = 100  # Bytes; the protocol allows no longer CID.


@dataclass(frozen=True, slots=True, order=True)
class Cid:
    """A CIDv1 in its binary form, without any multibase or tag prefix."""

    raw: bytes

    @property
    def codec(self) -> int:
        return read_varint(self.raw, 1)[0]

    @property
    def is_sha256(self) -> bool:
        """The only form that this protocol writes: CIDv1, DAG-CBOR or raw, SHA-256."""
        return len(self.raw) == 36 and self.raw[:4] in (_PREFIX[DAG_CBOR], _PREFIX[RAW])

    def __str__(self) -> str:
        return "b" + base32(self.raw)


def cid_of(data: bytes, codec: int = DAG_CBOR) -> Cid:
    return Cid(_PREFIX[codec] + sha256(data).digest())


def matches(cid: Cid, data: bytes) -> bool:
    """Whether `data` is what `cid` names. A hash other than SHA-256 matches nothing."""
    return cid.is_sha256 and cid.raw[4:] == sha256(data).digest()


def parse_cid(text: str) -> Cid:
    if not text.startswith("b") or len(text) > 2 * _LONGEST:
        raise Malformed(f"not a base32 CID: {text[:80]!r}")
    return decode_cid(debase32(text[1:]))


def decode_cid(raw: bytes) -> Cid:
    cid, end = read_cid(raw, 0)
    if end != len(raw):
        raise Malformed(f"{len(raw) - end} bytes behind a CID")
    return cid


def read_cid(data: bytes, at: int) -> tuple[Cid, int]:
    """The CID at `at`, of any codec and hash, and the offset just behind it."""
    version, after = read_varint(data, at)
    if version != 1:
        raise Malformed(f"CID version {version} at {at}, expected 1")
    for _ in ("codec", "hash"):
        _, after = read_varint(data, after)
    length, after = read_varint(data, after)
    end = after + length
    if end - at > _LONGEST:
        raise Malformed(f"CID of {end - at} bytes at {at}")
    if end > len(data):
        raise Malformed(f"CID at {at} is cut off")
    return Cid(data[at:end]), end


def base32(data: bytes) -> str:
    text: str = encode_multibase("b", data)
    return text[1:]


def debase32(text: str) -> bytes:
    # The library also takes capitals and padding; each value must have one spelling here.
    if text != text.lower() or "=" in text:
        raise Malformed("base32 text with capitals or padding")
    try:
        data = b32decode(text.upper() + "=" * (-len(text) % 8))
    except (BadBase32, ValueError) as error:
        raise Malformed(f"not base32: {error}") from None
    if base32(data) != text:
        raise Malformed("base32 text with left-over bits")
    return data
