"""Bodies of zeros that are small on the wire and gigabytes when inflated."""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

_BLOCK_SIZE = 1 << 20
_ZEROS = bytes(_BLOCK_SIZE)
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_DEFLATE_END = b"\x03\x00"


@lru_cache(maxsize=4)
def gzip_bomb(size: int) -> tuple[bytes, ...]:
    """A valid gzip member of about 1/1000 of `size`, in pieces; slow the first time (CRC)."""
    blocks = size // _BLOCK_SIZE
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    # A full flush makes the block independent of its neighbours, so that it can be repeated.
    block = deflater.compress(_ZEROS) + deflater.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(blocks):
        crc = zlib.crc32(_ZEROS, crc)
    trailer = struct.pack("<II", crc, blocks * _BLOCK_SIZE & 0xFFFFFFFF)
    group = 64
    body = [block * group] * (blocks // group) + [block * (blocks % group)]
    return (_GZIP_HEADER, *body, _DEFLATE_END + trailer)


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_1_MIB = b"\x00\x50"  # Frame header: no checksum, no content size; window 2**20.
_ZSTD_BLOCK_SIZE = 128 << 10  # The largest a block may be.
_RLE = 1  # Block type: one byte, repeated.


@lru_cache(maxsize=4)
def zstd_bomb(size: int) -> tuple[bytes, ...]:
    """A valid zstd frame of 1/32768 of `size`: each four bytes inflate to 128 KiB."""
    header = (_ZSTD_BLOCK_SIZE << 3 | _RLE << 1).to_bytes(3, "little")
    last_and_empty = b"\x01\x00\x00"
    blocks = (header + b"\x00") * (size // _ZSTD_BLOCK_SIZE)
    return (_ZSTD_MAGIC + _ZSTD_WINDOW_1_MIB + blocks + last_and_empty,)
