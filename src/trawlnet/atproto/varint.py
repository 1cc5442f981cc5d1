"""Unsigned LEB128 integers, as CAR files and CIDs use them."""

from __future__ import annotations

from trawlnet.malformed import Malformed

_LONGEST = 9  # Bytes: 63 bits, the multiformats limit.


def encode_varint(value: int) -> bytes:
    if value < 0 or value >> 63:
        raise ValueError(f"varint out of range: {value}")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer at `at`, and the offset just behind it."""
    value = 0
    for taken in range(_LONGEST):
        if at + taken >= len(data):
            raise Malformed(f"varint at {at} is cut off")
        byte = data[at + taken]
        value |= (byte & 0x7F) << (7 * taken)
        if byte < 0x80:
            if byte == 0 and taken:
                raise Malformed(f"varint at {at} is longer than it needs to be")
            return value, at + taken + 1
    raise Malformed(f"varint at {at} is longer than {_LONGEST} bytes")
