"""How far one firehose was read."""

from __future__ import annotations

from datetime import datetime

import msgspec


class HostCursor(msgspec.Struct, frozen=True, array_like=True):
    seq: int = 0  # Every message up to it is durable; 0: none has come yet.
    time: str = ""  # As the last message has it.
    looks_back: bool = False  # Its messages do not come in order: begin a little earlier.
    at: float = 0.0  # When it was saved.


def seconds_of(time: str) -> float | None:
    """Unix seconds of what a server wrote; None for what is no time."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return None
