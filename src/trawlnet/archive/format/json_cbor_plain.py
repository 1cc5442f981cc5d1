"""The JSON of a record as the DAG-CBOR it stands for: the plain twin of the C code.

There is one way to write a record, and JSON in any other is refused: so no two texts give the same
bytes, and whoever changes one byte of the JSON changes the record's CID.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import orjson

from trawlnet.archive.format.json_plain import RecordDropped, record_json
from trawlnet.atproto.cid import parse_cid
from trawlnet.atproto.dagcbor import encode
from trawlnet.malformed import Malformed

_DEEPEST = 40  # Beyond what a record may have; the exact limit is that of writing it.


def record_cbor(json: bytes) -> bytes:
    """Raises Malformed."""
    try:
        data = encode(_value(orjson.loads(json), 0))
        if record_json(data, keep_cids=True) == json:
            return data
    except (ValueError, TypeError, RecursionError, RecordDropped) as error:
        raise Malformed(f"JSON that no record has: {error}") from None
    raise Malformed("JSON that nobody writes")


def gives_back(json: bytes, data: bytes) -> bool:
    """Whether a record's bytes can be made from its JSON."""
    try:
        return record_cbor(json) == data
    except Malformed:
        return False


def _value(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise Malformed("too deep")
    match value:
        case float():
            raise Malformed("a float")
        case list():
            return [_value(item, depth + 1) for item in value]
        case {"$link": str(text), **more} if not more:
            return parse_cid(text)
        case {"$bytes": str(text), **more} if not more:
            return b64decode(text + "=" * (-len(text) % 4), validate=True)
        case dict():
            if len(value) == 1 and value.keys() <= {"$link", "$bytes"}:
                raise Malformed("a map that stands for bytes or a link")
            return {key: _value(item, depth + 1) for key, item in value.items()}
        case _:
            return value
