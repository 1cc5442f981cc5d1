"""Answers that go wrong at one position each, and a process that serves them: its work does not
count as the client's."""

from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import brotli

from tests.support import child

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TRAILERS = CHUNKED + b"4\r\nhalf\r\n0\r\n"
HONEST = b"honest " * 300
DRIP = 0.005  # Seconds between two bytes.
OVERSIZED = 3 << 20  # Bytes.


class Position(NamedTuple):
    """A place in an answer that a server can fill at will."""

    before: bytes
    filler: bytes
    after: bytes = b""


POSITIONS = {
    "status_line": Position(b"HTTP/1.1 200 ", b"O", b"\r\nContent-Length: 0\r\n\r\n"),
    "header_name": Position(HEAD, b"x", b": y\r\nContent-Length: 0\r\n\r\n"),
    "header_value": Position(HEAD + b"X: ", b"y", b"\r\nContent-Length: 0\r\n\r\n"),
    "header_lines": Position(HEAD, b"X: y\r\n", b"Content-Length: 0\r\n\r\n"),
    "folded_header": Position(HEAD + b"X: y\r\n", b" y\r\n", b"Content-Length: 0\r\n\r\n"),
    "folded_by_tabs": Position(HEAD + b"X: y\r\n", b"\ty\r\n", b"Content-Length: 0\r\n\r\n"),
    "folded_trailer": Position(TRAILERS + b"X: y\r\n", b" y\r\n", b"\r\n"),
    "1xx_value": Position(b"HTTP/1.1 103 Hint\r\nLink: ", b"y", b"\r\n\r\n" + HEAD + b"\r\n"),
    "1xx_answers": Position(b"", b"HTTP/1.1 102 Wait\r\n\r\n", HEAD + b"\r\n"),
    "body_to_the_end": Position(HEAD + b"\r\n", b"z"),
    "body_of_a_length": Position(HEAD + b"Content-Length: %d\r\n\r\n" % OVERSIZED, b"z"),
    "chunk_size": Position(CHUNKED, b"0", b"\r\n\r\n"),
    "chunk_extension": Position(CHUNKED + b"4;x=", b"y", b"\r\nhalf\r\n0\r\n\r\n"),
    "chunk_data": Position(CHUNKED + b"%x\r\n" % OVERSIZED, b"z", b"\r\n0\r\n\r\n"),
    "tiny_chunks": Position(CHUNKED, b"1\r\nz\r\n", b"0\r\n\r\n"),
    "wrapped_chunks": Position(CHUNKED, b"1;" + b"y" * 500 + b"\r\nz\r\n", b"0\r\n\r\n"),
    "trailer_name": Position(TRAILERS, b"x", b": y\r\n\r\n"),
    "trailer_value": Position(TRAILERS + b"X: ", b"y", b"\r\n\r\n"),
    "trailer_lines": Position(TRAILERS, b"X: y\r\n", b"\r\n"),
    "trailer_after_much": Position(
        CHUNKED + b"80000\r\n" + b"z" * 0x80000 + b"\r\n0\r\nX: ", b"y", b"\r\n\r\n"
    ),
}


BOMB = 64  # Megabytes of zeros that each of them becomes.
_MEGABYTE = bytes(1 << 20)


def _deflated() -> bytes:
    """Without an end, as whoever inflates it whole finds out too late."""
    packer = zlib.compressobj(9, wbits=-15)
    return (packer.compress(_MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)) * BOMB


def _zstd() -> bytes:
    """Blocks of four bytes, each of which stands for 128 kB."""
    repeated = (128 << 10 << 3 | 1 << 1).to_bytes(3, "little") + b"0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + repeated * (8 * BOMB)


_GZIP_HEAD = gzip.compress(b"")[:10]
BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: _GZIP_HEAD + _deflated(),
    "deflate": lambda: b"\x78\xda" + _deflated(),
    "br": lambda: brotli.compress(_MEGABYTE * BOMB, quality=3),
    "zstd": _zstd,
    "gzip, gzip": lambda: gzip.compress(_GZIP_HEAD + _deflated()),
}


@cache
def bomb(coding: str) -> bytes:
    return BOMBS[coding]()


def serve_one(connection: socket.socket) -> None:
    with connection:
        try:
            while head := _request(connection):
                _answer(connection, head.split(b" ", 2)[1].decode("ascii"))
        except OSError:
            pass  # The client has had enough.


def _request(connection: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = connection.recv(4096)
        if not piece:
            return b""
        head += piece
    return head


def _answer(connection: socket.socket, path: str) -> None:
    _, habit, name = path.split("/")
    if habit == "honest":
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(HONEST) + HONEST)
        return
    if habit.startswith("bomb"):
        coding = name.replace("+", ", ")
        head = b"HTTP/1.1 %s X\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
        body = bomb(coding)
        connection.sendall(head % (habit[4:].encode(), coding.encode(), len(body)) + body)
        return
    position = POSITIONS[name]
    connection.sendall(position.before)
    if habit == "drip":
        for byte in cycle(position.filler):
            connection.sendall(bytes([byte]))
            time.sleep(DRIP)
    much = position.filler * (65536 // len(position.filler) + 1)
    if habit == "endless":
        while True:
            connection.sendall(much)
    for _ in range(OVERSIZED // len(much) + 1):
        connection.sendall(much)
    connection.sendall(position.after)
    raise OSError("the answer is over, and the connection with it")


def over_tls(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            serve_one(context.wrap_socket(connection, server_side=True))

    return serve


def dripping_tls(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    """The handshake comes byte by byte, and is a proper one."""

    def serve(connection: socket.socket) -> None:
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = context.wrap_bio(heard, said, server_side=True)
        with connection, suppress(OSError):
            while piece := connection.recv(65536):
                heard.write(piece)
                with suppress(ssl.SSLWantReadError):
                    session.do_handshake()
                for byte in said.read():
                    connection.sendall(bytes([byte]))
                    time.sleep(DRIP)

    return serve


class Ports(NamedTuple):
    plain: int
    tls: int = 0
    dripping: int = 0


@contextmanager
def positions_served(certificate: Path | None = None) -> Iterator[Ports]:
    """The ports of a process that answers `/habit/position`; over TLS, too, with a certificate."""
    names = [str(certificate)] if certificate else []
    command = [*child.module("support.net.hostile_positions"), *names]
    with subprocess.Popen(
        command, env=child.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield Ports(*map(int, process.stdout.readline().split()))
        finally:
            process.kill()


def main() -> None:
    ways: list[Callable[[socket.socket], None]] = [serve_one]
    for certificate in sys.argv[1:]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        ways += [over_tls(context), dripping_tls(context)]
    listening = [socket.create_server(("127.0.0.1", 0), backlog=256) for _ in ways]
    print(*[one.getsockname()[1] for one in listening], flush=True)
    for one, way in zip(listening, ways, strict=True):
        threading.Thread(target=accept_all, args=(one, way), daemon=True).start()
    # Whoever started this process has gone when its end of the pipe is closed.
    sys.stdin.read()


def accept_all(listening: socket.socket, way: Callable[[socket.socket], None]) -> None:
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=way, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
