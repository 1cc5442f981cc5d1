"""A wire between clients and a server that strikes somebody when certain words pass."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field


@dataclass
class Moment:
    """When these words pass, `strike`; what strikes nobody waits for the next time."""

    words: bytes
    passes_on: bool  # The dead one's request arrives nevertheless.
    strike: Callable[[], bool]


@dataclass
class Wire:
    """Between clients and the server, and strikes when it is time."""

    to: int
    moments: list[Moment]
    listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listening.getsockname()[1]}"

    def close(self) -> None:
        self.listening.close()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            for ends in ((client, server, self.lets_pass), (server, client, lambda data: True)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    def lets_pass(self, data: bytes) -> bool:
        with self.turn:
            if not self.moments or self.moments[0].words not in data:
                return True
            if not self.moments[0].strike():
                return True
            return self.moments.pop(0).passes_on


def pump(source: socket.socket, to: socket.socket, lets_pass: Callable[[bytes], bool]) -> None:
    with closing(source), closing(to):
        try:
            while data := source.recv(1 << 20):
                if not lets_pass(data):
                    return
                to.sendall(data)
        except OSError:
            return
