"""The protocol's JSON form of DAG-CBOR values: links as $link, bytes as $bytes."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from trawlnet.atproto.cid import Cid
from trawlnet.atproto.dagcbor import Value

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
