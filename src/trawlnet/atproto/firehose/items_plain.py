"""Reading a frame's CBOR item by item, as leniently as the C code does: any width of a head, any
order of keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from trawlnet.atproto.firehose.limits import MAX_CONTAINER, MAX_NESTING, MAX_TEXT
from trawlnet.malformed import Malformed

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG = range(7)
NULL, FALSE, TRUE = 0xF6, 0xF4, 0xF5
LINK_TAG = 42
DAG_CBOR_SHA256 = b"\x01\x71\x12\x20"
_SIMPLE = (20, 21, 22, 25, 26, 27)  # Words and floats.


class CborHead(NamedTuple):
    major: int
    info: int
    argument: int
    end: int


def read_head(data: bytes, at: int) -> CborHead:
    if at >= len(data):
        raise Malformed(f"CBOR ends at {at}")
    first = data[at]
    major, info = first >> 5, first & 31
    if info < 24:
        return CborHead(major, info, info, at + 1)
    if info > 27:
        raise Malformed(f"CBOR of indefinite or reserved length at {at}")
    end = at + 1 + (1 << (info - 24))
    if end > len(data):
        raise Malformed(f"CBOR head at {at} is cut")
    return CborHead(major, info, int.from_bytes(data[at + 1 : end], "big"), end)


def read_string(data: bytes, at: int, major: int) -> tuple[bytes, int]:
    """The content of the byte or text string at `at`, and the offset just behind it."""
    head = read_head(data, at)
    end = head.end + head.argument
    if head.major != major or end > len(data):
        raise Malformed(f"no whole string at {at}")
    return data[head.end : end], end


def read_link(data: bytes, at: int) -> bytes:
    """The CID of the link at `at`, which must be DAG-CBOR under SHA-256."""
    head = read_head(data, at)
    if head.major != TAG or head.argument != LINK_TAG:
        raise Malformed(f"no link at {at}")
    raw, _ = read_string(data, head.end, BYTES)
    if len(raw) != 37 or raw[:5] != b"\0" + DAG_CBOR_SHA256:
        raise Malformed(f"the link at {at} is not DAG-CBOR under SHA-256")
    return raw[1:]


def read_text(data: bytes, at: int) -> str:
    raw, _ = read_string(data, at, TEXT)
    if len(raw) > MAX_TEXT:
        raise Malformed(f"text of {len(raw)} bytes at {at}")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Malformed(f"text at {at} is not UTF-8") from None


def read_integer(data: bytes, at: int) -> int:
    head = read_head(data, at)
    if head.major not in (UNSIGNED, NEGATIVE) or head.argument >> 63:
        raise Malformed(f"no integer of 64 bits at {at}")
    return head.argument if head.major == UNSIGNED else -1 - head.argument


def read_bool(data: bytes, at: int) -> bool:
    if at >= len(data) or data[at] not in (FALSE, TRUE):
        raise Malformed(f"neither true nor false at {at}")
    return data[at] == TRUE


def skip(data: bytes, at: int, depth: int = 0) -> int:
    """The offset just behind the value at `at`; recursion is bounded by the nesting allowed."""
    head = read_head(data, at)
    match head.major:
        case 0 | 1:
            return head.end
        case 2 | 3:
            return read_string(data, at, head.major)[1]
        case 4 | 5:
            if depth >= MAX_NESTING or head.argument > MAX_CONTAINER:
                raise Malformed("CBOR container too deep or too large")
            at = head.end
            for _ in range(head.argument * (head.major - 3)):
                at = skip(data, at, depth + 1)
            return at
        case 6:
            if head.argument != LINK_TAG:
                raise Malformed(f"CBOR tag at {at} is no link")
            return read_string(data, head.end, BYTES)[1]
        case _:
            if head.info not in _SIMPLE:
                raise Malformed(f"CBOR simple value at {at}")
            return head.end


def read_fields(data: bytes, at: int, known: Collection[bytes]) -> dict[bytes, int]:
    """Where the values of a map's known fields begin. Unknown ones are passed over."""
    head = read_head(data, at)
    if head.major != MAP or head.argument > MAX_CONTAINER:
        raise Malformed(f"no map at {at}")
    found: dict[bytes, int] = {}
    at = head.end
    for _ in range(head.argument):
        name, value = read_string(data, at, TEXT)
        if name in found:
            raise Malformed(f"{name!r} twice in one map")
        if name in known:
            found[name] = value
        at = skip(data, value, 1)
    return found
