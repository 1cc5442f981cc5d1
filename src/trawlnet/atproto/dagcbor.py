"""DAG-CBOR: one byte string per value, written and read with nothing left to choice."""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any

from trawlnet.atproto.cid import Cid, decode_cid
from trawlnet.malformed import Malformed

# Plain data: None, bool, int, float, str, bytes, list, dict with string keys, and Cid for a link.
Value = Any

_DEEPEST = 128  # Containers inside containers; the protocol promises far fewer.
_LINK_HEAD = b"\xd8\x2a\x58"
_FLOAT = struct.Struct(">d")


def encode(value: Value) -> bytes:
    out: list[bytes] = []
    _encode(value, out.append, 0)
    return b"".join(out)


def decode(data: bytes) -> Value:
    """The one value that `data` spells, all of it, in the only spelling allowed."""
    value, end = decode_from(data, 0)
    if end != len(data):
        raise Malformed(f"{len(data) - end} bytes behind a CBOR value")
    return value


def decode_from(data: bytes, at: int) -> tuple[Value, int]:
    """The value at `at`, and the offset just behind it."""
    return _decode(data, at, 0)


def head(major: int, argument: int) -> bytes:
    """The first bytes of an item: its major type and its shortest argument."""
    kind = major << 5
    if argument < 24:
        return _SMALL[kind + argument]
    if argument < 0x100:
        return bytes((kind + 24, argument))
    if argument < 0x10000:
        return bytes((kind + 25,)) + argument.to_bytes(2, "big")
    if argument < 0x100000000:
        return bytes((kind + 26,)) + argument.to_bytes(4, "big")
    if argument < 0x10000000000000000:
        return bytes((kind + 27,)) + argument.to_bytes(8, "big")
    raise ValueError(f"{argument.bit_length()} bits do not fit a CBOR argument")


_SMALL = [bytes((byte,)) for byte in range(256)]


def link(cid: bytes) -> bytes:
    """A link to a CID given in binary."""
    return _LINK_HEAD + bytes((len(cid) + 1, 0)) + cid


# The order of the tests is that of the types' frequency in records.
def _encode(value: Value, put: Any, depth: int) -> None:
    if isinstance(value, str):
        text = value.encode()
        put(head(3, len(text)))
        put(text)
    elif isinstance(value, dict):
        _encode_map(value, put, depth)
    elif isinstance(value, bool):
        put(b"\xf5" if value else b"\xf4")
    elif isinstance(value, int):
        put(head(0, value) if value >= 0 else head(1, -1 - value))
    elif isinstance(value, list | tuple):
        _check_depth(depth)
        put(head(4, len(value)))
        for item in value:
            _encode(item, put, depth + 1)
    elif value is None:
        put(b"\xf6")
    elif isinstance(value, Cid):
        put(link(value.raw))
    elif isinstance(value, bytes):
        put(head(2, len(value)))
        put(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no DAG-CBOR form")
        put(b"\xfb" + _FLOAT.pack(value))
    else:
        raise TypeError(f"{type(value).__name__} has no DAG-CBOR form")


def _encode_map(value: dict[str, Value], put: Any, depth: int) -> None:
    _check_depth(depth)
    put(head(5, len(value)))
    for key, encoded in _in_order(tuple(value)):
        put(encoded)
        _encode(value[key], put, depth + 1)


# Records have few shapes, and ordering their keys costs more than writing them.
@lru_cache(maxsize=1024)
def _in_order(keys: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Keys with their encoded form: shorter ones first, then by their bytes."""
    encoded = [(key.encode(), key) for key in keys]
    encoded.sort(key=lambda pair: (len(pair[0]), pair[0]))
    return [(key, head(3, len(raw)) + raw) for raw, key in encoded]


def _check_depth(depth: int) -> None:
    if depth >= _DEEPEST:
        raise Malformed(f"more than {_DEEPEST} containers inside each other")


def _decode(data: bytes, at: int, depth: int) -> tuple[Value, int]:
    if at >= len(data):
        raise Malformed(f"CBOR ends at {at} where a value should start")
    first = data[at]
    major, small = first >> 5, first & 31
    if major == 7:
        return _decode_simple(data, at, small)
    argument, at = _argument(data, at, small)
    match major:
        case 0:
            return argument, at
        case 1:
            return -1 - argument, at
        case 2:
            return _take(data, at, argument), at + argument
        case 3:
            return _text(data, at, argument), at + argument
        case 4:
            return _decode_list(data, at, argument, depth)
        case 5:
            return _decode_map(data, at, argument, depth)
        case _:
            return _decode_link(data, at, argument)


def _argument(data: bytes, at: int, small: int) -> tuple[int, int]:
    if small < 24:
        return small, at + 1
    if small > 27:
        raise Malformed(f"CBOR item of indefinite or reserved length at {at}")
    width = 1 << (small - 24)
    value = int.from_bytes(_take(data, at + 1, width), "big")
    if value < (24 if width == 1 else 1 << (4 * width)):
        raise Malformed(f"CBOR number at {at} is longer than it needs to be")
    return value, at + 1 + width


def _take(data: bytes, at: int, count: int) -> bytes:
    taken = data[at : at + count]
    if len(taken) != count:
        raise Malformed(f"CBOR item at {at} is cut off")
    return taken


def _text(data: bytes, at: int, count: int) -> str:
    try:
        return _take(data, at, count).decode()
    except UnicodeDecodeError:
        raise Malformed(f"CBOR string at {at} is not UTF-8") from None


def _decode_list(data: bytes, at: int, count: int, depth: int) -> tuple[list[Value], int]:
    _check_depth(depth)
    _check_count(data, at, count)
    items = []
    for _ in range(count):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    return items, at


def _decode_map(data: bytes, at: int, count: int, depth: int) -> tuple[dict[str, Value], int]:
    _check_depth(depth)
    _check_count(data, at, 2 * count)
    items: dict[str, Value] = {}
    before = b""
    for index in range(count):
        start = at
        if at >= len(data) or data[at] >> 5 != 3:
            raise Malformed(f"CBOR map key at {at} is not a string")
        size, at = _argument(data, at, data[at] & 31)
        raw = _take(data, at, size)
        if index and (len(raw), raw) <= (len(before), before):
            raise Malformed(f"CBOR map key at {start} is repeated or out of order")
        key, at, before = _text(data, at, size), at + size, raw
        items[key], at = _decode(data, at, depth + 1)
    return items, at


def _check_count(data: bytes, at: int, count: int) -> None:
    # Every item takes a byte: a count beyond that is refused before anything is built for it.
    if count > len(data) - at:
        raise Malformed(f"CBOR container at {at} claims {count} items")


def _decode_link(data: bytes, at: int, tag: int) -> tuple[Cid, int]:
    if tag != 42:
        raise Malformed(f"CBOR tag {tag} at {at}, only links are allowed")
    if at >= len(data) or data[at] >> 5 != 2:
        raise Malformed(f"link at {at} is not a byte string")
    size, at = _argument(data, at, data[at] & 31)
    raw = _take(data, at, size)
    if raw[:1] != b"\0":
        raise Malformed(f"link at {at} lacks its zero byte")
    return decode_cid(raw[1:]), at + size


def _decode_simple(data: bytes, at: int, small: int) -> tuple[Value, int]:
    match small:
        case 20 | 21:
            return small == 21, at + 1
        case 22:
            return None, at + 1
        case 27:
            (number,) = _FLOAT.unpack(_take(data, at + 1, 8))
            if not math.isfinite(number):
                raise Malformed(f"CBOR float at {at} is not a number")
            return number, at + 9
        case _:
            raise Malformed(f"CBOR simple value or short float at {at}")
