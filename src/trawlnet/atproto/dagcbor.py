"""DAG-CBOR: one byte string per value, written with nothing left to choice."""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any

from trawlnet.atproto.cid import Cid
from trawlnet.malformed import Malformed

# Plain data: None, bool, int, float, str, bytes, list, dict with string keys, and Cid for a link.
Value = Any

DEEPEST = 128  # Containers inside containers; the protocol promises far fewer.
_LINK_TAG = b"\xd8\x2a"
_FLOAT = struct.Struct(">d")


def encode(value: Value) -> bytes:
    out: list[bytes] = []
    _encode(value, out.append, 0)
    return b"".join(out)


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
    return _LINK_TAG + head(2, len(cid) + 1) + b"\0" + cid


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
        check_depth(depth)
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
    check_depth(depth)
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


def check_depth(depth: int) -> None:
    if depth >= DEEPEST:
        raise Malformed(f"more than {DEEPEST} containers inside each other")
