"""What `native/zstd.py` needs, from Python's own zstd: the twin of the C in `native/pack`."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ZstdError = zstd.ZstdError
ZSTD_VERSION: str = zstd.zstd_version

Buffer = bytes | bytearray | memoryview


class FrameWriter:
    def __init__(self, level: int, checksum: bool, /) -> None:
        parameter = zstd.CompressionParameter
        options: dict[int, int] = {
            parameter.compression_level: level,
            parameter.checksum_flag: int(checksum),
        }
        self._stream = zstd.ZstdCompressor(options=options)

    def frame(self, data: Buffer, /) -> bytes:
        """A frame that declares its size."""
        return self._stream.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)

    def add(self, data: Buffer, /) -> bytes:
        """What comes out when so much more goes into a frame."""
        return self._stream.compress(data, zstd.ZstdCompressor.CONTINUE)

    def end(self) -> bytes:
        """The rest of that frame."""
        return self._stream.flush(zstd.ZstdCompressor.FLUSH_FRAME)


class FrameReader:
    def __init__(self, window_log: int, /) -> None:
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: window_log}
        self._stream = zstd.ZstdDecompressor(options=options)

    def feed(self, data: Buffer, most: int, /) -> bytes:
        """The next bytes of the frame, `most` at most."""
        return self._stream.decompress(data, most)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        return self._stream.needs_input

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


def frame_size(data: Buffer, /) -> int | None:
    """As the frame declares it, or None."""
    return zstd.get_frame_info(data).decompressed_size


def unpack(data: Buffer, size: int, /) -> bytes:
    """What is in the one frame, which is of this size."""
    stream = zstd.ZstdDecompressor()
    found = stream.decompress(data, size + 1)
    if not stream.eof or len(found) != size:
        raise ZstdError(f"the frame is cut off, or not of {size} bytes")
    if stream.unused_data:
        raise ZstdError("data follow the frame")
    return found
