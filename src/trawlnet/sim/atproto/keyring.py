"""Keys of a simulated world: few of them, all made from the seed, and quick to sign with."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b, sha256

from trawlnet.atproto.identity.keys import ORDER, Curve, PublicKey
from trawlnet.sim.private_key import PrivateKey, raw_signature

_KEYS_PER_CURVE = 24
_NONCES_PER_CURVE = 8


@dataclass(frozen=True, slots=True)
class Nonce:
    r: int
    inverse: int


@dataclass(frozen=True, slots=True)
class QuickKey:
    """Signs some hundred times faster than an honest key, because its nonces are made in advance.

    Signing twice with one nonce gives the private key away. In a world whose keys follow from a
    printed seed there is nothing to give away, and a signature verifies like any other.
    """

    secret: PrivateKey
    public: PublicKey
    did_key: str
    nonces: tuple[Nonce, ...]

    def sign(self, message: bytes) -> bytes:
        curve = self.secret.curve
        hashed = int.from_bytes(sha256(message).digest(), "big")
        nonce = self.nonces[hashed % len(self.nonces)]
        s = nonce.inverse * (hashed + nonce.r * self.secret.secret) % ORDER[curve]
        return raw_signature(curve, nonce.r, s)


def make_keyring(seed: int) -> tuple[QuickKey, ...]:
    """The world's keys, the two curves by turns."""
    rings = [_keys_of(seed, curve) for curve in (Curve.P256, Curve.K256)]
    return tuple(key for pair in zip(*rings, strict=True) for key in pair)


def _keys_of(seed: int, curve: Curve) -> list[QuickKey]:
    nonces = tuple(_nonce(seed, curve, number) for number in range(_NONCES_PER_CURVE))
    keys = []
    for number in range(_KEYS_PER_CURVE):
        secret = PrivateKey(curve, _scalar(seed, curve, f"key {number}"))
        public = secret.public
        keys.append(QuickKey(secret, public, public.did_key, nonces))
    return keys


def _nonce(seed: int, curve: Curve, number: int) -> Nonce:
    k = _scalar(seed, curve, f"nonce {number}")
    # The first half of a signature is the x of k times the generator, which k as a key has too.
    x = int.from_bytes(PrivateKey(curve, k).public.point[1:], "big")
    return Nonce(x % ORDER[curve], pow(k, -1, ORDER[curve]))


def _scalar(seed: int, curve: Curve, what: str) -> int:
    digest = blake2b(f"{seed}/{curve}/{what}".encode(), digest_size=40).digest()
    return 1 + int.from_bytes(digest, "big") % (ORDER[curve] - 1)
