"""Keys on secp256k1 by Bitcoin's library, where it is installed: nearly every account has such a
key, and OpenSSL takes eight times as long."""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from trawlnet.malformed import Malformed

try:
    from coincurve import PublicKey
except ImportError:
    is_available = False
else:
    is_available = True

_FORMS = (2, 3, 4)  # First bytes of points; the library knows a fourth form that nobody else does.


def compressed(point: bytes) -> bytes:
    """The 33 bytes of a point, however it was given. Raises Malformed."""
    return _key(point).format(compressed=True)


def verifies(point: bytes, r: int, s: int, message: bytes) -> bool:
    """Whether a low-S signature is that key's, over the SHA-256 of the message. Raises Malformed
    for what is no point."""
    key = _key(point)
    try:
        return key.verify(encode_dss_signature(r, s), message)
    except ValueError:  # Numbers that no signature has.
        return False


@lru_cache(maxsize=1024)
def _key(point: bytes) -> PublicKey:
    if not point or point[0] not in _FORMS:
        raise Malformed("not a point on k256")
    try:
        return PublicKey(point)
    except ValueError:
        raise Malformed("not a point on k256") from None
