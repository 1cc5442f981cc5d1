"""Private keys of both curves, for simulated worlds: a crawl only verifies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from trawlnet.atproto.identity.keys import ORDER, Curve, PublicKey

_CURVES: dict[Curve, ec.EllipticCurve] = {
    Curve.P256: ec.SECP256R1(),
    Curve.K256: ec.SECP256K1(),
}
_REPEATABLE_SIGNATURE = ec.ECDSA(SHA256(), deterministic_signing=True)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    curve: Curve
    secret: int

    @property
    def public(self) -> PublicKey:
        key = _derived(self.curve, self.secret).public_key()
        point = key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        return PublicKey(self.curve, point)

    def sign(self, message: bytes) -> bytes:
        """Sign the SHA-256 of the message; the same message gives the same 64 bytes."""
        der = _derived(self.curve, self.secret).sign(message, _REPEATABLE_SIGNATURE)
        return raw_signature(self.curve, *decode_dss_signature(der))


def raw_signature(curve: Curve, r: int, s: int) -> bytes:
    # Both s and its negative verify; only the smaller is accepted, so that there is one signature.
    s = min(s, ORDER[curve] - s)
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


@lru_cache(maxsize=1024)
def _derived(curve: Curve, secret: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(secret, _CURVES[curve])
