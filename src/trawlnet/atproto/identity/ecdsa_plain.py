"""Signatures on both curves in plain Python, for where no library that knows a curve is installed.

It only verifies. All numbers in it are public, so nobody learns anything from the time it takes;
nothing in this package signs this way.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from trawlnet.malformed import Malformed

_SHORT, _LONG = 33, 65  # Bytes of a point without and with its y.


@dataclass(frozen=True, slots=True)
class PlainCurve:
    """y² = x³ + ax + b, over a prime field whose prime leaves 3 when divided by 4."""

    name: str
    field: int
    a: int
    b: int
    order: int  # A prime: every point but the one at infinity has it.
    generator: tuple[int, int]


P256: Final = PlainCurve(
    "p256",
    field=2**256 - 2**224 + 2**192 + 2**96 - 1,
    a=-3,
    b=0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    order=0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    generator=(
        0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
        0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    ),
)
K256: Final = PlainCurve(
    "k256",
    field=2**256 - 2**32 - 977,
    a=0,
    b=7,
    order=0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
    generator=(
        0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
        0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
    ),
)


def compressed(curve: PlainCurve, point: bytes) -> bytes:
    """The 33 bytes of a point, in whichever form it comes. Raises Malformed."""
    x, y = _parsed(curve, point)
    return bytes([2 + y % 2]) + x.to_bytes(32, "big")


def verifies(curve: PlainCurve, point: bytes, r: int, s: int, message: bytes) -> bool:
    """Whether a signature is that key's, over the SHA-256 of the message. Raises Malformed for
    what is no point."""
    key = _parsed(curve, point)
    if not (0 < r < curve.order and 0 < s < curve.order):
        return False
    inverse = pow(s, -1, curve.order)
    hashed = int.from_bytes(sha256(message).digest(), "big")
    x, _, z = _sum_of_multiples(
        curve, hashed * inverse % curve.order, r * inverse % curve.order, key
    )
    if z == 0:
        return False
    return x * pow(z * z, -1, curve.field) % curve.field % curve.order == r


def _parsed(curve: PlainCurve, point: bytes) -> tuple[int, int]:
    form = point[0] if point else 0
    x = int.from_bytes(point[1:33], "big")
    square = (x * x * x + curve.a * x + curve.b) % curve.field
    if form in (2, 3) and len(point) == _SHORT:
        y = pow(square, (curve.field + 1) // 4, curve.field)
        y = y if y % 2 == form % 2 else curve.field - y
    elif form == 4 and len(point) == _LONG:
        y = int.from_bytes(point[33:], "big")
    else:
        raise Malformed(f"not a point on {curve.name}")
    if x >= curve.field or y >= curve.field or y * y % curve.field != square:
        raise Malformed(f"not a point on {curve.name}")
    return x, y


# A point whose x and y are fractions over the square and the cube of z: to add needs no division
# then. The point at infinity has a z of 0.
_Fraction = tuple[int, int, int]
_INFINITY: Final[_Fraction] = (1, 1, 0)


def _sum_of_multiples(curve: PlainCurve, u: int, v: int, key: tuple[int, int]) -> _Fraction:
    """u times the generator and v times the key, added, a bit of both at a time."""
    one: _Fraction = (*curve.generator, 1)
    other: _Fraction = (*key, 1)
    steps = (_INFINITY, one, other, _add(curve, one, other))
    total = _INFINITY
    for bit in range(max(u.bit_length(), v.bit_length()) - 1, -1, -1):
        total = _double(curve, total)
        step = u >> bit & 1 | (v >> bit & 1) << 1
        if step:
            total = _add(curve, total, steps[step])
    return total


def _double(curve: PlainCurve, point: _Fraction) -> _Fraction:
    (x, y, z), p = point, curve.field
    if not y or not z:
        return _INFINITY
    squared = y * y % p
    s = 4 * x * squared % p
    slope = 3 * x * x % p
    if curve.a:
        slope += curve.a * pow(z, 4, p)
    doubled = (slope * slope - 2 * s) % p
    return doubled, (slope * (s - doubled) - 8 * squared * squared) % p, 2 * y * z % p


def _add(curve: PlainCurve, one: _Fraction, other: _Fraction) -> _Fraction:
    if not one[2]:
        return other
    if not other[2]:
        return one
    (x1, y1, z1), (x2, y2, z2), p = one, other, curve.field
    square1, square2 = z1 * z1 % p, z2 * z2 % p
    u1, u2 = x1 * square2 % p, x2 * square1 % p
    s1, s2 = y1 * square2 * z2 % p, y2 * square1 * z1 % p
    if u1 == u2:
        return _double(curve, one) if s1 == s2 else _INFINITY
    h, slope = u2 - u1, s2 - s1
    squared = h * h % p
    cubed, v = squared * h % p, u1 * squared % p
    x = (slope * slope - cubed - 2 * v) % p
    return x, (slope * (v - x) - s1 * cubed) % p, h * z1 * z2 % p
