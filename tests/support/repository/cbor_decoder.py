"""DAG-CBOR read back: every value has one spelling, and every other one is refused."""

from __future__ import annotations

import math
import struct

from trawlnet.atproto.cid import Cid, decode_cid
from trawlnet.atproto.dagcbor import Value, check_depth
from trawlnet.malformed import Malformed

_FLOAT = struct.Struct(">d")


def decode(data: bytes) -> Value:
    """The one value that `data` spells, all of it, in the only spelling allowed."""
    value, end = decode_from(data, 0)
    if end != len(data):
        raise Malformed(f"{len(data) - end} bytes behind a CBOR value")
    return value


def decode_from(data: bytes, at: int) -> tuple[Value, int]:
    """The value at `at`, and the offset just behind it."""
    return _decode(data, at, 0)


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
    check_depth(depth)
    _check_count(data, at, count)
    items = []
    for _ in range(count):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    return items, at


def _decode_map(data: bytes, at: int, count: int, depth: int) -> tuple[dict[str, Value], int]:
    check_depth(depth)
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
