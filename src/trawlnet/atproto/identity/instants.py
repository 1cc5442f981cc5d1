"""Instants of the directory's export, in microseconds since 1970."""

from __future__ import annotations

from datetime import datetime

from trawlnet.malformed import Malformed


def microseconds(text: str) -> int:
    """Raises Malformed for what is no instant, or before 1970."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise Malformed(f"a time without a zone: {text[:40]!r}")
        seconds = round(moment.timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        raise Malformed(f"not a time: {text[:40]!r}") from None
    if seconds < 0:
        raise Malformed(f"a time before all computers: {text[:40]!r}")
    return seconds
