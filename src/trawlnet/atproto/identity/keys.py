"""Signing keys of the two curves: did:key and multibase forms, low-S signatures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from trawlnet.atproto.identity import k256
from trawlnet.atproto.identity.base58 import decode_base58, encode_base58
from trawlnet.malformed import Malformed


class Signer(Protocol):
    """A private key, or something that signs like one."""

    def sign(self, message: bytes) -> bytes:
        """64 bytes: r and low s over the SHA-256 of the message."""


class Curve(StrEnum):
    P256 = "p256"
    K256 = "k256"


ORDER = {
    Curve.P256: 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    Curve.K256: 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
}
_MULTICODEC = {Curve.P256: b"\x80\x24", Curve.K256: b"\xe7\x01"}
_LIBRARY_CURVE: dict[Curve, ec.EllipticCurve] = {
    Curve.P256: ec.SECP256R1(),
    Curve.K256: ec.SECP256K1(),
}
# Before Multikey, a DID document named the curve in its type and gave a bare point.
_OLD_TYPE = {
    "EcdsaSecp256r1VerificationKey2019": Curve.P256,
    "EcdsaSecp256k1VerificationKey2019": Curve.K256,
}
_SIGNATURE = ec.ECDSA(SHA256())
_REPEATABLE_SIGNATURE = ec.ECDSA(SHA256(), deterministic_signing=True)


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
        try:
            _loaded(self.curve, self.point).verify(encode_dss_signature(r, s), message, _SIGNATURE)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class PrivateKey:
    curve: Curve
    secret: int

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.curve, _compressed(_derived(self.curve, self.secret).public_key()))

    def sign(self, message: bytes) -> bytes:
        """Sign the SHA-256 of the message; the same message gives the same 64 bytes."""
        der = _derived(self.curve, self.secret).sign(message, _REPEATABLE_SIGNATURE)
        return raw_signature(self.curve, *decode_dss_signature(der))


def raw_signature(curve: Curve, r: int, s: int) -> bytes:
    # Both s and its negative verify; only the smaller is accepted, so that there is one signature.
    s = min(s, ORDER[curve] - s)
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


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
    return PublicKey(curve, _compressed(_loaded(curve, point)))


def _demultibase(text: str) -> bytes:
    if not text.startswith("z"):
        raise Malformed("a key that is not in base58")
    return decode_base58(text[1:])


@lru_cache(maxsize=1024)
def _loaded(curve: Curve, point: bytes) -> ec.EllipticCurvePublicKey:
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(_LIBRARY_CURVE[curve], point)
    except ValueError:
        raise Malformed(f"not a point on {curve}") from None


@lru_cache(maxsize=1024)
def _derived(curve: Curve, secret: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(secret, _LIBRARY_CURVE[curve])


def _compressed(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
