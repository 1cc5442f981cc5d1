"""Answers that go wrong at one position each, and a process that serves them: its work does not
count as the client's."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import NamedTuple

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


@contextmanager
def positions_served() -> Iterator[int]:
    """The port of a process that answers `/habit/position`."""
    command = child.module("support.net.hostile_positions")
    with subprocess.Popen(
        command, env=child.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        print(listening.getsockname()[1], flush=True)
        # Whoever started this process has gone when its end of the pipe is closed.
        threading.Thread(target=accept_all, args=(listening,), daemon=True).start()
        sys.stdin.read()


def accept_all(listening: socket.socket) -> None:
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve_one, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
