"""Signatures on both curves by OpenSSL, where `cryptography` is installed."""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from trawlnet.malformed import Malformed

_CURVES: dict[str, ec.EllipticCurve] = {"p256": ec.SECP256R1(), "k256": ec.SECP256K1()}
_SIGNATURE = ec.ECDSA(SHA256())


def compressed(curve: str, point: bytes) -> bytes:
    """The 33 bytes of a point, in whichever form it comes. Raises Malformed."""
    return _loaded(curve, point).public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


def verifies(curve: str, point: bytes, r: int, s: int, message: bytes) -> bool:
    """Whether a signature is that key's, over the SHA-256 of the message. Raises Malformed for
    what is no point."""
    try:
        _loaded(curve, point).verify(encode_dss_signature(r, s), message, _SIGNATURE)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=1024)
def _loaded(curve: str, point: bytes) -> ec.EllipticCurvePublicKey:
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(_CURVES[curve], point)
    except ValueError:
        raise Malformed(f"not a point on {curve}") from None
