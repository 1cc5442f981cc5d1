"""A record's DAG-CBOR as compact JSON: the plain twin of the C transcoder, byte for byte."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from typing import Any

import libipld
import orjson

from trawlnet.archive.format.content import DropReason
from trawlnet.atproto.cbor_items import (
    ARRAY,
    BYTES,
    LINK_TAG,
    MAP,
    MAX_CONTAINER,
    MAX_NESTING,
    TEXT,
    ItemHead,
    read_head,
    read_span,
)
from trawlnet.atproto.cid import Cid, base32, decode_cid
from trawlnet.malformed import Malformed

_LOWEST = -(1 << 63)
_FLOATS = {25: struct.Struct(">e"), 26: struct.Struct(">f"), 27: struct.Struct(">d")}
_WORDS = {20: b"false", 21: b"true", 22: b"null"}
_LINK_HEAD = 0xD8


class RecordDropped(Exception):
    """This record cannot be written as JSON."""

    def __init__(self, reason: DropReason) -> None:
        super().__init__(reason)
        self.reason = reason


def record_json(data: bytes, *, keep_cids: bool) -> bytes:
    if data and data[0] >> 5 != MAP:
        raise RecordDropped(DropReason.NOT_A_MAP)
    return _json_by_library(data, keep_cids) or _json_by_hand(data, keep_cids)


class _Unsure(Exception):
    """The libraries may see this record otherwise than the C code does."""


def _json_by_library(data: bytes, keep_cids: bool) -> bytes | None:
    """The quick way, or None. A record that encodes back to its own bytes holds no surprises."""
    try:
        value = libipld.decode_dag_cbor(data)
        if libipld.encode_dag_cbor(value) != data:
            return None
        return orjson.dumps(_jsonable(value, keep_cids, 0))
    except (ValueError, RecursionError, _Unsure):
        return None


def _jsonable(value: Any, keep_cids: bool, depth: int) -> Any:
    match value:
        case str() | bool() | None:
            return value
        case dict() | list() if depth >= MAX_NESTING or len(value) > MAX_CONTAINER:
            raise _Unsure
        case dict():
            stripped = not keep_cids and _is_strong_reference(value)
            return {
                key: _jsonable(item, keep_cids, depth + 1)
                for key, item in value.items()
                if not (stripped and key == "cid")
            }
        case list():
            return [_jsonable(item, keep_cids, depth + 1) for item in value]
        case int() if value >= _LOWEST:
            return value
        case bytes():
            return _jsonable_bytes(value)
        case _:
            raise _Unsure


def _jsonable_bytes(value: bytes) -> dict[str, str]:
    # libipld gives links and byte strings alike as bytes, and writes back as links those that read
    # as CIDs; since the record came back unchanged, its verdict tells which these were.
    if libipld.encode_dag_cbor(value)[0] != _LINK_HEAD:
        return {"$bytes": _base64(value).decode()}
    try:
        return {"$link": str(decode_cid(value))}
    except Malformed:
        raise _Unsure from None


def _is_strong_reference(value: dict[str, Any]) -> bool:
    return isinstance(value.get("cid"), str) and isinstance(value.get("uri"), str)


def _json_by_hand(data: bytes, keep_cids: bool) -> bytes:
    out: list[bytes] = []
    try:
        end = _put_value(data, 0, 0, keep_cids, out)
    except Malformed:
        raise RecordDropped(DropReason.BAD_CBOR) from None
    if end != len(data):
        raise RecordDropped(DropReason.BAD_CBOR)
    return b"".join(out)


def _put_value(data: bytes, at: int, depth: int, keep_cids: bool, out: list[bytes]) -> int:
    head = read_head(data, at)
    match head.major:
        case 0:
            out.append(b"%d" % head.argument)
        case 1:
            if -1 - head.argument < _LOWEST:
                raise RecordDropped(DropReason.INT_RANGE)
            out.append(b"%d" % (-1 - head.argument))
        case 2:
            raw, end = read_span(data, at, BYTES)
            out.append(b'{"$bytes":"' + _base64(raw) + b'"}')
            return end
        case 3:
            raw, end = read_span(data, at, TEXT)
            out.append(_text(raw))
            return end
        case 4 | 5:
            return _put_container(data, head, depth, keep_cids, out)
        case 6:
            return _put_link(data, head, out)
        case _:
            out.append(_simple(head))
    return head.end


def _put_container(
    data: bytes, head: ItemHead, depth: int, keep_cids: bool, out: list[bytes]
) -> int:
    if depth >= MAX_NESTING:
        raise RecordDropped(DropReason.TOO_DEEP)
    if head.argument > MAX_CONTAINER:
        raise RecordDropped(DropReason.TOO_LARGE)
    if head.major == ARRAY:
        return _put_array(data, head, depth, keep_cids, out)
    return _put_map(data, head, depth, keep_cids, out)


def _put_array(data: bytes, head: ItemHead, depth: int, keep_cids: bool, out: list[bytes]) -> int:
    at = head.end
    out.append(b"[")
    for index in range(head.argument):
        if index:
            out.append(b",")
        at = _put_value(data, at, depth + 1, keep_cids, out)
    out.append(b"]")
    return at


def _put_map(data: bytes, head: ItemHead, depth: int, keep_cids: bool, out: list[bytes]) -> int:
    at = head.end
    entries: dict[bytes, bytes] = {}
    texts: set[bytes] = set()
    for _ in range(head.argument):
        key, at = read_span(data, at, TEXT)
        entry = [_text(key), b":"]
        if at < len(data) and data[at] >> 5 == TEXT:
            texts.add(key)
        at = _put_value(data, at, depth + 1, keep_cids, entry)
        entries[key] = b"".join(entry)
    if len(entries) != head.argument:
        raise RecordDropped(DropReason.DUPLICATE_KEY)
    if not keep_cids and {b"cid", b"uri"} <= texts:
        del entries[b"cid"]
    out.append(b"{" + b",".join(entries.values()) + b"}")
    return at


def _put_link(data: bytes, head: ItemHead, out: list[bytes]) -> int:
    if head.argument != LINK_TAG:
        raise RecordDropped(DropReason.BAD_CBOR)
    raw, end = read_span(data, head.end, BYTES)
    if raw[:1] != b"\0":
        raise RecordDropped(DropReason.BAD_CBOR)
    try:
        cid: Cid = decode_cid(raw[1:])
    except Malformed:
        raise RecordDropped(DropReason.BAD_CID) from None
    out.append(b'{"$link":"b' + base32(cid.raw).encode() + b'"}')
    return end


def _simple(head: ItemHead) -> bytes:
    if head.info in _WORDS:
        return _WORDS[head.info]
    if head.info not in _FLOATS:
        raise RecordDropped(DropReason.BAD_CBOR)
    layout = _FLOATS[head.info]
    (value,) = layout.unpack(head.argument.to_bytes(layout.size, "big"))
    return repr(value).encode() if math.isfinite(value) else b"null"


def _text(raw: bytes) -> bytes:
    try:
        return orjson.dumps(raw.decode())
    except UnicodeDecodeError:
        raise RecordDropped(DropReason.BAD_UTF8) from None


def _base64(raw: bytes) -> bytes:
    return b64encode(raw).rstrip(b"=")
