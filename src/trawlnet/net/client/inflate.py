"""Inflating a body piece by piece, so that a bomb costs one piece of memory and no more."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from trawlnet.native.zstd import FrameReader, ZstdError
from trawlnet.net.trouble import Garbled, Truncated

try:
    import brotli
except ImportError:
    has_brotli = False  # Nobody is asked for it then.
else:
    has_brotli = True


class Inflater(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the data inflates to, in pieces of bounded size, made as they are asked for; a
        piece may be empty. Raises Garbled."""

    def finish(self) -> None:
        """No data is left. Raises Truncated if the stream is not complete."""


def inflater_for(content_encodings: Sequence[str]) -> Inflater | None:
    """For the values of the header; None when the body is sent as it is. Raises Garbled for a
    coding we did not ask for."""
    name = ", ".join(content_encodings).strip().lower()
    if name in ("", "identity"):
        return None
    make = _MAKERS.get(name)
    if make is None:
        # A second coding inside the first is how small bombs grow large: we never ask for it.
        raise Garbled(f"content encoding {name!r} was not asked for")
    return make()


_PIECE = 256 * 1024  # Bytes inflated at a time.
_MOST_MEMBERS = 4096  # Concatenated streams; each costs set-up time however empty it is.
_WINDOW_LOG = 23  # zstd over HTTP is limited to windows of 8 MiB.
_GZIP_MAGIC = b"\x1f\x8b"


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._members = 0
        self._begun = False
        self._between = b""  # What follows a finished member, until it is clear what it is.

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        while data:
            if self._stream.eof:
                data = self._next_member(data)
                if not data:
                    return
            yield from _drain_zlib(self._stream, data)
            data = self._stream.unused_data

    def finish(self) -> None:
        if self._begun and not self._stream.eof:
            raise Truncated("the gzip stream is cut off")

    def _next_member(self, data: bytes) -> bytes:
        data, self._between = self._between + data, b""
        if not data.startswith(_GZIP_MAGIC):
            # Padding after the last member is common, and ignored as browsers do.
            self._between = data[: len(_GZIP_MAGIC)]
            return b""
        self._members = _one_more(self._members)
        self._stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        return data


class _Deflate:
    """Both things that servers call deflate: with a zlib header, and without."""

    def __init__(self) -> None:
        self._head = b""
        self._stream: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            is_zlib = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        if not self._stream.eof:
            yield from _drain_zlib(self._stream, data)

    def finish(self) -> None:
        if self._head and (self._stream is None or not self._stream.eof):
            raise Truncated("the deflate stream is cut off")


def _drain_zlib(stream: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    while True:
        try:
            piece = stream.decompress(data, _PIECE)
        except zlib.error as error:
            raise Garbled(f"bad deflate data: {error}") from error
        data = stream.unconsumed_tail
        if piece:
            yield piece
        # A full piece may have more behind it even when all input is used.
        if stream.eof or (not data and len(piece) < _PIECE):
            return


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        if self._stream.is_finished():
            return
        piece = self._process(data)
        # Output may wait inside even after all input has been taken.
        while piece or not self._stream.can_accept_more_data():
            yield piece
            piece = self._process(b"")

    def finish(self) -> None:
        if self._begun and not self._stream.is_finished():
            raise Truncated("the brotli stream is cut off")

    def _process(self, data: bytes) -> bytes:
        try:
            return bytes(self._stream.process(data, output_buffer_limit=_PIECE))
        except brotli.error as error:
            raise Garbled(f"bad brotli data: {error}") from error


class _ZstdDecoder:
    def __init__(self) -> None:
        self._stream = FrameReader(_WINDOW_LOG)
        self._members = 0
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        while data:
            if self._stream.eof:
                self._members = _one_more(self._members)
                self._stream = FrameReader(_WINDOW_LOG)
            yield self._process(data)
            while not (self._stream.eof or self._stream.needs_input):
                yield self._process(b"")
            data = self._stream.unused_data

    def finish(self) -> None:
        if self._begun and not self._stream.eof:
            raise Truncated("the zstd stream is cut off")

    def _process(self, data: bytes) -> bytes:
        try:
            return self._stream.feed(data, _PIECE)
        except ZstdError as error:
            raise Garbled(f"bad zstd data: {error}") from error


def _one_more(members: int) -> int:
    if members >= _MOST_MEMBERS:
        raise Garbled(f"more than {_MOST_MEMBERS} compressed streams in one body")
    return members + 1


_MAKERS: dict[str, Callable[[], Inflater]] = {
    "gzip": _Gzip,
    "deflate": _Deflate,
    **({"br": _Brotli} if has_brotli else {}),
    "zstd": _ZstdDecoder,
}
ACCEPTED = ", ".join(_MAKERS)  # For Accept-Encoding.
_MAKERS["x-gzip"] = _Gzip  # An old name, which servers may use and nobody asks for.
