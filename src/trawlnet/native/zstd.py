"""zstd: ours where it was linked, else the library of Python 3.14 or its backport. Never both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trawlnet.native.loader import has_zstd, native

if TYPE_CHECKING or not has_zstd:
    from trawlnet.native.zstd_plain import (
        ZSTD_VERSION,
        FrameReader,
        FrameWriter,
        ZstdError,
        frame_size,
        unpack,
    )
else:
    ZSTD_VERSION: str = native.ZSTD_VERSION
    FrameReader = native.FrameReader
    FrameWriter = native.FrameWriter
    ZstdError = native.ZstdError
    frame_size = native.frame_size
    unpack = native.unpack

__all__ = ["ZSTD_VERSION", "FrameReader", "FrameWriter", "ZstdError", "read_frame", "read_pieces"]

Buffer = bytes | bytearray | memoryview

_PIECE = 1 << 20  # Bytes unpacked at a time.
_WINDOW_LOG = 27  # The widest window that zstd accepts unless told otherwise: 128 MiB.


def read_frame(data: Buffer, limit: int) -> bytes:
    """What is in the one frame. Raises ZstdError, also for more than `limit` bytes."""
    declared = frame_size(data)
    if declared is not None:
        if declared > limit:
            raise ZstdError(f"{declared} bytes, more than {limit}")
        return unpack(data, declared)
    # Other writers make frames that do not declare their size.
    pieces, size = [], 0
    for piece in read_pieces(data):
        size += len(piece)
        if size > limit:
            raise ZstdError(f"more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def read_pieces(data: Buffer) -> Iterator[bytes]:
    """What is in the one frame, piece by piece. Raises ZstdError."""
    reader = FrameReader(_WINDOW_LOG)
    yield reader.feed(data, _PIECE)
    while not (reader.eof or reader.needs_input):
        yield reader.feed(b"", _PIECE)
    if not reader.eof:
        raise ZstdError("the frame is cut off")
    if reader.unused_data:
        raise ZstdError("data follow the frame")
