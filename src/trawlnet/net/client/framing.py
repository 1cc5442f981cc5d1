"""What delimits a body, and how much a server may send that is no body."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from multidict import CIMultiDictProxy, istr

_PER_BODY_BYTE = 10  # Bytes of framing: a chunk of one byte has five, or ten with a padded size.
_LONGEST_LENGTH = 19  # Digits.
_BLANKS = b" \t"


class Framing(NamedTuple):
    """Of one response, by its head."""

    is_chunked: bool
    refusal: str = ""  # Why the body cannot be read.


UNCODED = Framing(False)  # The body is as long as announced, or ends with the connection.
_CHUNKED = Framing(True)
_CODING = istr("Transfer-Encoding")
_LENGTH = istr("Content-Length")


def header(name: bytes, value: bytes) -> tuple[istr, str]:
    """The parser sees a length in `Content-Length : 4 `, and leaves the blanks for us to see."""
    return _name(name), value.rstrip(_BLANKS).decode("utf-8", "surrogateescape")


@lru_cache(maxsize=128)  # The same few come in every head.
def _name(raw: bytes) -> istr:
    return istr(raw.rstrip(_BLANKS).decode("utf-8", "surrogateescape"))


def framing_of(headers: CIMultiDictProxy[str]) -> Framing:
    """By what stands in the head, which the parser has found to be of one mind about it."""
    if _CODING not in headers:
        return UNCODED
    coding = ", ".join(headers.getall(_CODING)).lower()
    if coding != "chunked":
        # We ask for no transfer coding, and none can be told from a mangled `chunked`.
        return Framing(False, f"transfer encoding {coding!r} was not asked for")
    return _CHUNKED


def length_of(headers: CIMultiDictProxy[str]) -> int | None:
    """Of a body that is uncoded; None for one that ends with the connection."""
    length = headers.get(_LENGTH, "")
    is_number = length.isdecimal() and length.isascii() and len(length) <= _LONGEST_LENGTH
    return int(length) if is_number else None


class Overhead:
    """Bytes of one response that are no body: informational answers, head, chunk sizes and
    extensions, trailers. The body has its own limit; whoever sends neither one nor the other
    gets no further than this one."""

    __slots__ = ("_body", "_longest", "_since_body", "framing")

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._since_body = 0  # Bytes in a row: an unfinished line is kept until it ends.
        self._body = 0
        self.framing = 0  # Bytes after the head.

    def count_head(self, size: int) -> str:
        """Why this is too much; empty while it is not."""
        self._since_body += size
        if self._since_body > self._longest:
            return f"a head of more than {self._longest} bytes"
        return ""

    def end_head(self, body: int) -> None:
        """So many bytes of the body came with it."""
        self._since_body = 0
        self._body = body

    def count_framed(self, size: int, body: int) -> str:
        """The same for bytes after the head, so many of them body."""
        self._body += body
        self.framing += size - body
        self._since_body = 0 if body else self._since_body + size
        if self._since_body > self._longest:
            return f"more than {self._longest} bytes of framing or trailers in a row"
        if self.framing > self._longest + _PER_BODY_BYTE * self._body:
            return f"{self.framing} bytes of framing around {self._body} bytes of body"
        return ""


_MOST_FOLDS = 64  # In a slice of a head; others fold no line, or one.


def is_folded(lines: memoryview) -> bool:
    """Whether header lines go on in the next line more often than any server has a use for."""
    raw = bytes(lines)
    return raw.count(b"\n ") + raw.count(b"\n\t") > _MOST_FOLDS


_BYTES_RECEIVED = struct.Struct("128xQ")  # In Linux's tcp_info.
_TLS_SLACK = 16 * 1024 * 1024  # Bytes: what kernels hold for a slow reader, and certificates.
_PER_TLS_BYTE = 32  # Bytes: a record for every byte of text takes about as many.


def received_by(sock: socket.socket) -> Callable[[], int]:
    """Bytes that have come over a socket, whatever became of them; 0 where that is unknown."""

    def received() -> int:
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
            return int(_BYTES_RECEIVED.unpack(info)[0])
        except (AttributeError, OSError, struct.error):  # Linux alone has it in this form.
            return 0

    return received


_LONGEST_HANDSHAKE = 1 << 20  # Bytes; OpenSSL itself takes certificates of 100 KiB.
_LOOK = 0.05  # Seconds between two looks at a handshake.


@contextmanager
def bounded_handshake(sock: socket.socket) -> Iterator[None]:
    """Hangs up on a server that goes on and on: there is TLS that says nothing, and is ignored
    for as long as it comes."""
    received, loop = received_by(sock), asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        if received() <= _LONGEST_HANDSHAKE:
            timer = loop.call_later(_LOOK, look)
            return
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # Somebody else was faster.

    timer = loop.call_later(_LOOK, look)
    try:
        yield
    finally:
        timer.cancel()


def is_idle_tls(received: int, text: int) -> bool:
    """Whether TLS has taken in far more than it gave out: records that say nothing to us, such as
    session tickets without end."""
    return received > _TLS_SLACK + _PER_TLS_BYTE * text
