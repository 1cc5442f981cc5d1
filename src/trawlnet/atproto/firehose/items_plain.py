"""The values of a frame's fields, from its CBOR."""

from __future__ import annotations

from collections.abc import Collection

from trawlnet.atproto.cbor_items import (
    MAP,
    MAX_CONTAINER,
    NEGATIVE,
    SHA256_LINK,
    TEXT,
    UNSIGNED,
    read_head,
    read_sha256_link,
    read_span,
    skip,
)
from trawlnet.atproto.firehose.limits import MAX_TEXT
from trawlnet.malformed import Malformed

NULL, FALSE, TRUE = 0xF6, 0xF4, 0xF5


def read_link(data: bytes, at: int) -> bytes:
    """The CID of the link at `at`, which must be DAG-CBOR under SHA-256."""
    return SHA256_LINK + read_sha256_link(data, at)[0]


def read_text(data: bytes, at: int) -> str:
    raw, _ = read_span(data, at, TEXT)
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


def read_fields(data: bytes, at: int, known: Collection[bytes]) -> dict[bytes, int]:
    """Where the values of a map's known fields begin. Unknown ones are passed over."""
    head = read_head(data, at)
    if head.major != MAP or head.argument > MAX_CONTAINER:
        raise Malformed(f"no map at {at}")
    found: dict[bytes, int] = {}
    at = head.end
    for _ in range(head.argument):
        name, value = read_span(data, at, TEXT)
        if name in found:
            raise Malformed(f"{name!r} twice in one map")
        if name in known:
            found[name] = value
        at = skip(data, value, 1)
    return found
