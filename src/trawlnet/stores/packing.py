"""Checks a task before a store saves it, and turns its payload into bytes."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from trawlnet.engine.task import Task
from trawlnet.stores.errors import UnstorableKey

DETAIL_CHARS: Final = 500  # A detail is one line for a human; remotes write parts of it.
_SHOWN_CHARS: Final = 80  # Of a key, in an error message.
_WORD_LIMIT: Final = 1 << 63  # Attempts and waits are stored as signed 64-bit numbers.

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


def pack_payload(task: Task) -> bytes:
    """The payload as bytes; raises Unstorable for a task that no store can save."""
    # NaN has no place in an order: a queue would lose the task.
    if math.isnan(task.score) or math.isnan(task.due):
        raise UnstorableKey(
            f"task {shown(task.key)} has a score or a due time that is not a number",
            "use a finite number, or infinity",
        )
    if not (0 <= task.attempt < _WORD_LIMIT and 0 <= task.waits < _WORD_LIMIT):
        raise UnstorableKey(
            f"task {shown(task.key)} has attempt {task.attempt} and waits {task.waits}",
            "both count from 0 and fit in 63 bits",
        )
    try:
        return _encoder.encode(task.payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnstorableKey(
            f"the payload of task {shown(task.key)} cannot be stored: {error}",
            "use plain data: None, bool, int within 64 bits, float, str, bytes, list, dict",
        ) from error


def unpack_payload(payload: bytes) -> Any:
    return _decoder.decode(payload)


def text_bytes(text: str) -> bytes:
    """A key, a lane or a cursor as UTF-8; raises Unstorable for lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnstorableKey(
            f"{shown(text)} is not valid Unicode text and cannot be a key, a lane or a cursor",
            "decode remote text with errors='replace' before making a task of it",
        ) from error


def clean_detail(detail: str) -> str:
    """A detail that cannot fail a batch: bounded, with lone surrogates replaced."""
    return detail[:DETAIL_CHARS].encode("utf-8", "replace").decode()


def shown(text: str) -> str:
    """A key as it may appear in a message: escaped, and not longer than a line."""
    return ascii(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…")
