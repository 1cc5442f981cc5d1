"""The protocol's JSON form of DAG-CBOR values: links as $link, bytes as $bytes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from typing import Any

from trawlnet.atproto.cid import Cid, parse_cid
from trawlnet.atproto.dagcbor import Value
from trawlnet.malformed import Malformed

_DEEPEST = 128  # As in DAG-CBOR.


def to_json(value: Value) -> Any:
    """Plain JSON data for a decoded record."""
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Cid):
        return {"$link": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).rstrip(b"=").decode("ascii")}
    return value


def from_json(value: Any, depth: int = 0) -> Value:
    """The record that plain JSON data stands for. A map with $link or $bytes has no other key."""
    if depth > _DEEPEST:
        raise Malformed(f"more than {_DEEPEST} containers inside each other")
    if isinstance(value, list):
        return [from_json(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "$link" in value:
        return parse_cid(_only(value, "$link"))
    if "$bytes" in value:
        return _bytes(_only(value, "$bytes"))
    return {key: from_json(item, depth + 1) for key, item in value.items()}


def _only(value: dict[str, Any], name: str) -> str:
    text = value[name]
    if len(value) != 1 or not isinstance(text, str):
        raise Malformed(f"{name} is not a string, or not alone")
    return text


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (BadBase64, ValueError):
        raise Malformed("$bytes is not base64") from None
