"""Messages as zstd frames, for clients that ask for them."""

from __future__ import annotations

from trawlnet.native.zstd import FrameWriter

_LEVEL = 3


def packed(message: bytes) -> bytes:
    """One frame that needs no dictionary."""
    return FrameWriter(_LEVEL, False).frame(message)
