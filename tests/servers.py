"""Private servers for tests: real ones, on free loopback ports, gone when the test is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

START_SECONDS = 20.0


def require(program: str) -> str:
    """The path of a server program; without it the test is skipped, and under CI it fails."""
    found = shutil.which(program)
    if found:
        return found
    message = f"{program} is not installed: run `make services`"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class RedisServer:
    """One redis-server whose data outlives its process, so that tests can kill it."""

    program: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        # The log goes to a file: a pipe that nobody reads would stop the server.
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.program, "--port", str(self.port), "--bind", "127.0.0.1"),
                    *("--dir", str(self.folder), "--save", "", "--appendonly", "yes"),
                    *("--appendfsync", "everysec", "--daemonize", "no"),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError((self.folder / "redis.log").read_text()[-2000:])
            time.sleep(0.02)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as probe:
                probe.sendall(b"PING\r\n")
                # While it loads its data the server answers -LOADING.
                return probe.recv(5) == b"+PONG"
        except OSError:
            return False


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    program = require("redis-server")
    with tempfile.TemporaryDirectory(prefix="trawlnet-redis-") as folder:
        server = RedisServer(program, free_port(), Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()
