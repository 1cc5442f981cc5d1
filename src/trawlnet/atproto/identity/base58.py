"""Base58 with the Bitcoin alphabet, for multibase keys."""

from __future__ import annotations

from trawlnet.malformed import Malformed

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUE = {char: value for value, char in enumerate(_ALPHABET)}
# Conversion is quadratic in the length, so a hostile string must not choose it.
_LONGEST = 256  # Characters.


def encode_base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(digits))


def decode_base58(text: str) -> bytes:
    if len(text) > _LONGEST:
        raise Malformed(f"base58 text of {len(text)} characters")
    number = 0
    for char in text:
        if char not in _VALUE:
            raise Malformed(f"not a base58 character: {char!r}")
        number = number * 58 + _VALUE[char]
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
