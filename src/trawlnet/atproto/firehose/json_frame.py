"""Frames of text: one JSON object each, whose message is then written as the CBOR that it stands
for, so that there is one way to check it."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from trawlnet.atproto.cbor_items import MAX_NESTING
from trawlnet.atproto.cid import parse_cid
from trawlnet.atproto.dagcbor import Value, encode
from trawlnet.atproto.firehose.limits import MAX_FRAME
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.json_data import parse_object
from trawlnet.malformed import Malformed


@dataclass(frozen=True, slots=True)
class JsonFrame:
    kind: str  # "message", "error", or something of a later protocol.
    fragment: str  # "#commit" of a message of type com.atproto.sync.subscribeRepos#commit.
    payload: bytes


def read_json_frame(message: str) -> JsonFrame:
    # A character is at least a byte: what is too long this way need not be encoded to know it.
    if len(message) > MAX_FRAME:
        raise FrameRefused(Refusal.FRAME_TOO_LARGE)
    try:
        frame = parse_object(_utf8(message))
    except Malformed:
        raise FrameRefused(Refusal.NOT_JSON) from None
    kind = frame.get("$type")
    if not isinstance(kind, str):
        raise FrameRefused(Refusal.BAD_HEADER)
    body = frame.get("payload") if kind == "message" else frame
    if not isinstance(body, dict):
        raise FrameRefused(Refusal.BAD_HEADER)
    return JsonFrame(kind, _fragment(body) if kind == "message" else "", _as_cbor(body))


def _utf8(message: str) -> bytes:
    try:
        body = message.encode()
    except UnicodeEncodeError:
        raise Malformed("half of a surrogate pair") from None
    if len(body) > MAX_FRAME:
        raise FrameRefused(Refusal.FRAME_TOO_LARGE)
    return body


def _fragment(body: dict[str, Any]) -> str:
    name = body.get("$type")
    if not isinstance(name, str):
        raise FrameRefused(Refusal.BAD_HEADER)
    return name[name.find("#") :] if "#" in name else name


def _as_cbor(body: dict[str, Any]) -> bytes:
    try:
        return encode(_from_json(body, 0))
    except (Malformed, ValueError):
        raise FrameRefused(Refusal.BAD_FIELDS) from None


def _from_json(value: Any, depth: int) -> Value:
    if depth >= MAX_NESTING:
        raise Malformed("containers too deep")
    match value:
        case {"$link": str(text), **rest} if not rest:
            return parse_cid(text)
        case {"$bytes": str(text), **rest} if not rest:
            return _from_base64(text)
        case dict():
            return {name: _from_json(inner, depth + 1) for name, inner in value.items()}
        case list():
            return [_from_json(inner, depth + 1) for inner in value]
    return value


def _from_base64(text: str) -> bytes:
    # Written without padding here; some write it nevertheless.
    return b64decode(text + "=" * (-len(text) % 4), validate=True)
