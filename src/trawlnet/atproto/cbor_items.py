"""Reading CBOR item by item, as leniently as the C code: heads of any width, keys in any order."""

from __future__ import annotations

from typing import NamedTuple

from trawlnet.malformed import Malformed

MAX_NESTING = 32  # Containers inside containers; a record's own map is the first.
MAX_CONTAINER = 131_072  # Entries of one array or map.

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG = range(7)
LINK_TAG = 42
SHA256_LINK = b"\x01\x71\x12\x20"  # CIDv1, DAG-CBOR, SHA-256, 32 bytes.


_USUAL_LINK = b"\xd8\x2a\x58\x25\x00" + SHA256_LINK


class ItemHead(NamedTuple):
    major: int
    info: int
    argument: int
    end: int


def read_head(data: bytes, at: int) -> ItemHead:
    if at >= len(data):
        raise Malformed(f"CBOR ends at {at}")
    first = data[at]
    info = first & 31
    if info < 24:
        return ItemHead(first >> 5, info, info, at + 1)
    if info > 27:
        raise Malformed(f"CBOR item of indefinite or reserved length at {at}")
    end = at + 1 + (1 << (info - 24))
    if end > len(data):
        raise Malformed(f"CBOR head at {at} is cut")
    return ItemHead(first >> 5, info, int.from_bytes(data[at + 1 : end], "big"), end)


def read_span(data: bytes, at: int, major: int) -> tuple[bytes, int]:
    """The content of the byte or text string at `at`, and the offset just behind it."""
    head = read_head(data, at)
    end = head.end + head.argument
    if head.major != major or end > len(data):
        raise Malformed(f"CBOR string at {at} is cut, or is something else")
    return data[head.end : end], end


def read_link(data: bytes, at: int) -> tuple[bytes, int]:
    """The CID of the link at `at`, not looked into, and the offset just behind it."""
    head = read_head(data, at)
    if head.major != TAG or head.argument != LINK_TAG:
        raise Malformed(f"no link at {at}")
    cid, end = read_span(data, head.end, BYTES)
    if cid[:1] != b"\0":
        raise Malformed(f"link at {at} lacks its zero byte")
    return cid[1:], end


def read_sha256_link(data: bytes, at: int) -> tuple[bytes, int]:
    """The digest of the link at `at`, which must be DAG-CBOR under SHA-256."""
    if data[at : at + 9] == _USUAL_LINK and at + 41 <= len(data):
        return data[at + 9 : at + 41], at + 41
    cid, end = read_link(data, at)
    if len(cid) != 36 or cid[:4] != SHA256_LINK:
        raise Malformed(f"link at {at} is not DAG-CBOR under SHA-256")
    return cid[4:], end


def skip(data: bytes, at: int, depth: int = 0) -> int:
    """The offset just behind the value at `at`; recursion is bounded by the nesting allowed."""
    head = read_head(data, at)
    match head.major:
        case 0 | 1:
            return head.end
        case 2 | 3:
            return read_span(data, at, head.major)[1]
        case 4 | 5:
            return _skip_container(data, head, depth)
        case 6:
            if head.argument != LINK_TAG:
                raise Malformed(f"CBOR tag at {at} is not a link")
            return read_span(data, head.end, BYTES)[1]
        case _:
            if head.info not in (20, 21, 22, 25, 26, 27):
                raise Malformed(f"CBOR simple value at {at}")
            return head.end


def _skip_container(data: bytes, head: ItemHead, depth: int) -> int:
    if depth >= MAX_NESTING or head.argument > MAX_CONTAINER:
        raise Malformed("CBOR container too deep or too large")
    at = head.end
    for _ in range(head.argument * (head.major - 3)):
        at = skip(data, at, depth + 1)
    return at


def car_root(header: bytes) -> bytes:
    """The digest of the first root that the header of a CAR names."""
    head = read_head(header, 0)
    if head.major != MAP:
        raise Malformed("the header is no map")
    at, version, root = head.end, 0, None
    for _ in range(head.argument):
        key, value = read_span(header, at, TEXT)
        at = skip(header, value, 1)
        item = read_head(header, value)
        if key == b"version":
            version = item.argument if item.major == UNSIGNED else 0
        elif key == b"roots":
            if item.major != ARRAY or item.argument == 0:
                raise Malformed("the roots are no list with something in it")
            root, _ = read_sha256_link(header, item.end)
    if at != len(header) or version != 1 or root is None:
        raise Malformed("the header is not that of a CARv1")
    return root
