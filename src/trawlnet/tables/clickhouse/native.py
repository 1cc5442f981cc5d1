"""Blocks in ClickHouse's Native format: columns one after the other, so most of a block is joined
or repeated bytes and no Python object is made per cell."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

INSTANT: Final = "DateTime64(6, 'UTC')"


class NativeColumn(NamedTuple):
    name: str
    kind: str  # ClickHouse's name of the type.
    data: bytes


class TextPairs(NamedTuple):
    """Two String columns of the same rows, encoded."""

    rows: int
    first: bytes
    second: bytes


def block(columns: Sequence[NativeColumn], rows: int) -> bytes:
    parts = [varint(len(columns)), varint(rows)]
    for name, kind, data in columns:
        parts += (text(name.encode()), text(kind.encode()), data)
    return b"".join(parts)


def varint(number: int) -> bytes:
    """A length, as the format writes it."""
    if number < len(SHORT):
        return SHORT[number]
    return _varint(number)


def text(value: bytes) -> bytes:
    """One string of a String column."""
    return varint(len(value)) + value


def texts(name: str, values: Iterable[str]) -> NativeColumn:
    values = values if isinstance(values, list) else list(values)
    return NativeColumn(name, "String", _ascii_texts(values) or _texts(values))


def raw_texts(name: str, values: Sequence[bytes]) -> NativeColumn:
    sizes = map(varint, map(len, values))
    joined = b"".join(chain.from_iterable(zip(sizes, values, strict=True)))
    return NativeColumn(name, "String", joined)


def switches(name: str, values: Iterable[bool]) -> NativeColumn:
    return NativeColumn(name, "UInt8", bytes(values))


def integers(name: str, values: Iterable[int]) -> NativeColumn:
    return NativeColumn(name, "Int64", _packed("q", values))


def naturals(name: str, values: Iterable[int]) -> NativeColumn:
    return NativeColumn(name, "UInt64", _packed("Q", values))


def instants(name: str, microseconds: Iterable[int]) -> NativeColumn:
    return NativeColumn(name, INSTANT, _packed("q", microseconds))


def _ascii_texts(values: list[str]) -> bytes:
    """Of short plain texts, as most are: the length of each is a character before it, and all are
    encoded at once. Empty for others."""
    sizes = set(map(len, values))
    if not sizes or max(sizes) >= len(_LENGTHS):
        return b""
    if len(sizes) == 1:  # DIDs, CIDs, keys.
        size = _LENGTHS[sizes.pop()]
        joined = size + size.join(values)
    else:
        joined = "".join([_LENGTHS[len(value)] + value for value in values])
    return joined.encode() if joined.isascii() else b""


def _texts(values: list[str]) -> bytes:
    # Lone surrogates cannot be stored as UTF-8; they come only from JSON that escapes them.
    return b"".join([text(value.encode("utf-8", "replace")) for value in values])


def _packed(code: str, values: Iterable[int]) -> bytes:
    numbers = array(code, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# Nearly all strings are shorter than this, and looking up is four times as fast as counting.
SHORT = [_varint(number) for number in range(1 << 14)]
_LENGTHS = [chr(number) for number in range(0x80)]
