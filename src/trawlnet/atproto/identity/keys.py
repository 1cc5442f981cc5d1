"""Signing keys of the two curves: did:key and multibase forms, low-S signatures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Protocol

from trawlnet.atproto.identity import ecdsa_plain, k256
from trawlnet.atproto.identity.base58 import decode_base58, encode_base58
from trawlnet.loading import load
from trawlnet.malformed import Malformed


@cache
def openssl() -> ModuleType | None:
    """Loaded for the first key that Bitcoin's library does not take: few commands meet one. None
    where `cryptography` is not installed; plain Python takes thirty times as long."""
    try:
        found: ModuleType = load("trawlnet.atproto.identity.ecdsa_openssl")
    except ImportError:
        return None
    return found


class Signer(Protocol):
    """A private key, or something that signs like one."""

    def sign(self, message: bytes) -> bytes:
        """64 bytes: r and low s over the SHA-256 of the message."""


class Curve(StrEnum):
    P256 = "p256"
    K256 = "k256"


ORDER = {Curve.P256: ecdsa_plain.P256.order, Curve.K256: ecdsa_plain.K256.order}
_MULTICODEC = {Curve.P256: b"\x80\x24", Curve.K256: b"\xe7\x01"}
_PLAIN = {Curve.P256: ecdsa_plain.P256, Curve.K256: ecdsa_plain.K256}
# Before Multikey, a DID document named the curve in its type and gave a bare point.
_OLD_TYPE = {
    "EcdsaSecp256r1VerificationKey2019": Curve.P256,
    "EcdsaSecp256k1VerificationKey2019": Curve.K256,
}


@dataclass(frozen=True, slots=True)
class PublicKey:
    curve: Curve
    point: bytes  # Compressed: 33 bytes.

    @property
    def multibase(self) -> str:
        return "z" + encode_base58(_MULTICODEC[self.curve] + self.point)

    @property
    def did_key(self) -> str:
        return "did:key:" + self.multibase

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether a 64-byte low-S signature is this key's, over the SHA-256 of the message."""
        if len(signature) != 64:
            return False
        r = int.from_bytes(signature[:32], "big")
        s = int.from_bytes(signature[32:], "big")
        if s > ORDER[self.curve] // 2:
            return False
        if self.curve is Curve.K256 and k256.is_available:
            return k256.verifies(self.point, r, s, message)
        if (library := openssl()) is not None:
            return bool(library.verifies(self.curve, self.point, r, s, message))
        return ecdsa_plain.verifies(_PLAIN[self.curve], self.point, r, s, message)


def parse_did_key(text: str) -> PublicKey:
    if not text.startswith("did:key:"):
        raise Malformed(f"not a did:key: {text[:80]!r}")
    return parse_multikey(text.removeprefix("did:key:"))


def parse_multikey(text: str) -> PublicKey:
    raw = _demultibase(text)
    for curve, prefix in _MULTICODEC.items():
        if raw.startswith(prefix):
            return public_key(curve, raw[len(prefix) :])
    raise Malformed("a key of an unknown kind")


def parse_verification_key(kind: str, multibase: str) -> PublicKey:
    """The key of one verification method, in the form of today or in the older one."""
    if kind in _OLD_TYPE:
        return public_key(_OLD_TYPE[kind], _demultibase(multibase))
    if kind != "Multikey":
        raise Malformed(f"a verification method of type {kind[:80]!r}")
    return parse_multikey(multibase)


def public_key(curve: Curve, point: bytes) -> PublicKey:
    """The key at a point of the curve, compressed or not."""
    if curve is Curve.K256 and k256.is_available:
        return PublicKey(curve, k256.compressed(point))
    if (library := openssl()) is not None:
        return PublicKey(curve, library.compressed(curve, point))
    return PublicKey(curve, ecdsa_plain.compressed(_PLAIN[curve], point))


def _demultibase(text: str) -> bytes:
    if not text.startswith("z"):
        raise Malformed("a key that is not in base58")
    return decode_base58(text[1:])
