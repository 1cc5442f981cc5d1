"""Keys on secp256k1 by Bitcoin's library, where it is installed: nearly every account has such a
key, and OpenSSL takes eight times as long."""

from __future__ import annotations

from functools import lru_cache

from trawlnet.malformed import Malformed

try:
    from coincurve import PublicKey
except ImportError:
    is_available = False
else:
    is_available = True

_FORMS = (2, 3, 4)  # First bytes of points; the library knows a fourth form that nobody else does.


def compressed(point: bytes) -> bytes:
    """The 33 bytes of a point, from any encoding. Raises Malformed."""
    return _key(point).format(compressed=True)


def verifies(point: bytes, r: int, s: int, message: bytes) -> bool:
    """Whether a low-S signature is that key's, over the SHA-256 of the message. Raises Malformed
    for what is no point."""
    key = _key(point)
    try:
        return key.verify(_der(r, s), message)
    except ValueError:  # Numbers that no signature has.
        return False


def _der(r: int, s: int) -> bytes:
    """The form that the library reads. Both have 32 bytes at most, so that lengths fit in one."""
    both = _der_integer(r) + _der_integer(s)
    return bytes([0x30, len(both)]) + both


def _der_integer(number: int) -> bytes:
    data = number.to_bytes(number.bit_length() // 8 + 1, "big")  # The first bit is a sign.
    return bytes([0x02, len(data)]) + data


@lru_cache(maxsize=1024)
def _key(point: bytes) -> PublicKey:
    if not point or point[0] not in _FORMS:
        raise Malformed("not a point on k256")
    try:
        return PublicKey(point)
    except ValueError:
        raise Malformed("not a point on k256") from None
