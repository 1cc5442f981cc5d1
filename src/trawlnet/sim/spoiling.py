"""Spoilt answers of simulated hosts: cut, dripped, endless, inflated, or not HTTP at all."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import zlib
from functools import lru_cache

from aiohttp import web


class Severed(web.StreamResponse):
    """Tells aiohttp that the connection is over: nothing more is sent, nothing is logged."""

    async def prepare(self, request: web.BaseRequest) -> None:
        raise ConnectionResetError("the simulated host ended the connection")


def lie(honest: web.StreamResponse, turn: int) -> web.Response:
    noise = random.Random(turn).randbytes(max(64, len(_body(honest))))
    return web.Response(status=200, headers=_type_of(honest), body=noise)


async def drip(
    request: web.BaseRequest, honest: web.StreamResponse, *, size: int, gap: float, longest: float
) -> web.StreamResponse:
    """So many bytes at a time, with a gap after each; no drip outlasts the longest."""
    body = _body(honest)
    response = await _begin(request, honest, len(body))
    drops = min(len(body) // size + 1, int(longest / gap))
    for start in range(0, drops * size, size):
        await response.write(body[start : start + size])
        await asyncio.sleep(gap)
    if drops * size >= len(body):
        return response
    return cut(request)


async def truncate(
    request: web.BaseRequest, honest: web.StreamResponse, *, chunked: bool
) -> web.StreamResponse:
    body = _body(honest)
    response = await _begin(request, honest, None if chunked else len(body))
    await response.write(body[: len(body) // 2])
    return cut(request, response.status)


async def reset(request: web.BaseRequest, honest: web.StreamResponse) -> web.StreamResponse:
    body = _body(honest)
    response = await _begin(request, honest, len(body))
    await response.write(body[: len(body) // 2])
    transport = request.transport
    if transport is not None:
        # Lingering for no time makes the kernel answer with RST instead of FIN.
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return _severed(response.status)


_FLOOD_PIECE = b"<p>and on and on it goes</p>\n" * 2048


async def flood(request: web.BaseRequest, size: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/html; charset=utf-8"})
    await response.prepare(request)
    for _ in range(size // len(_FLOOD_PIECE)):
        await response.write(_FLOOD_PIECE)
        # A fast reader never fills the buffer; the other connections need their turn too.
        await asyncio.sleep(0)
    return response


async def bomb(request: web.BaseRequest, turn: int, size: int) -> web.StreamResponse:
    accepted = request.headers.get("Accept-Encoding", "")
    if turn % 2 == 1 and "zstd" in accepted:
        coding, pieces = "zstd", zstd_bomb(size)
    else:
        coding, pieces = "gzip", await asyncio.to_thread(gzip_bomb, size)
    response = web.StreamResponse(
        headers={"Content-Type": "text/html; charset=utf-8", "Content-Encoding": coding}
    )
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    return response


async def long_headers(request: web.BaseRequest, size: int) -> web.StreamResponse:
    line = b"X-Padding: " + b"a" * 1000 + b"\r\n"
    return await _without_end(request, b"HTTP/1.1 200 OK\r\n", line * 8, size)


async def endless_framing(request: web.BaseRequest, turn: int, size: int) -> web.StreamResponse:
    begun, unit = _FRAMINGS[turn % len(_FRAMINGS)]
    return await _without_end(request, begun, unit * (8192 // len(unit)), size)


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
# What comes first, and what then comes for ever.
_FRAMINGS = (
    (_CHUNKED + b"4\r\nhalf\r\n0\r\nX-Trailer: ", b"t"),
    (_CHUNKED + b"4;extension=", b"e"),
    (_CHUNKED, b"1;" + b"e" * 500 + b"\r\nz\r\n"),
    (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    (b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n", b" a\r\n"),
)


async def _without_end(
    request: web.BaseRequest, begun: bytes, more: bytes, size: int
) -> web.StreamResponse:
    transport = request.transport
    if transport is None:
        return _severed(0)
    transport.write(begun)
    for _ in range(size // len(more)):
        if transport.is_closing():
            break
        transport.write(more)
        # Raw writes know no back-pressure: pausing bounds what a client that does not read costs.
        await asyncio.sleep(0.001 if transport.get_write_buffer_size() == 0 else 0.1)
    return cut(request)


_NOT_HTTP = (
    b"SSH-2.0-OpenSSH_9.2p1\r\n",
    b"220 mail ready\r\n",
    b"\x15\x03\x01\x00\x02\x02\x46",  # A TLS alert.
)


async def garbage(request: web.BaseRequest, turn: int) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.write(_NOT_HTTP[turn % len(_NOT_HTTP)])
    return cut(request)


def cut(request: web.BaseRequest, status: int = 0) -> Severed:
    """End the connection after what was written, without the rest."""
    if request.transport is not None:
        request.transport.close()
    return _severed(status)


def _severed(status: int) -> Severed:
    response = Severed()
    response.set_status(status or 444, "severed")
    return response


async def _begin(
    request: web.BaseRequest, honest: web.StreamResponse, length: int | None
) -> web.StreamResponse:
    response = web.StreamResponse(status=honest.status, headers=_type_of(honest))
    response.content_length = length
    if length is None:
        response.enable_chunked_encoding()
    await response.prepare(request)
    return response


def _type_of(honest: web.StreamResponse) -> dict[str, str]:
    names = ("Content-Type", "Content-Encoding")
    return {name: honest.headers[name] for name in names if name in honest.headers}


# For an honest answer that is itself streamed, or empty: there must be something to spoil.
_STAND_IN = b"." * 4096


def _body(honest: web.StreamResponse) -> bytes:
    body = honest.body if isinstance(honest, web.Response) else None
    return bytes(body) if isinstance(body, bytes | bytearray) and body else _STAND_IN


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
