"""Forks processes on request, so that a test can kill many of them without starting Python anew.

Run as `python -m tests.crash.nursery MODULE`: the module, which lies beside this one, has ROLES,
coroutine functions of a folder.
One command per line on stdin, one answer per line on stdout: `start ROLE FOLDER` answers with a
pid, `kill PID` and `wait PID` with the status of the process once it is gone.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import child

PATIENCE = 120.0  # Seconds; only a test that fails waits that long.
WAITS = 1 / 3  # Of those that are killed at any instant.
Role = Callable[[Path], Coroutine[Any, Any, None]]


class Nursery:
    """The test's side."""

    def __init__(self, module: str, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            child.module("crash.nursery", module),
            env=child.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, role: str) -> int:
        return self._ask("start", role, self.folder)

    def kill(self, pid: int) -> bool:
        """True if it was alive until now; it may have come to its good end before."""
        status = self._ask("kill", pid)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, f"it had died of something else before: status {status}"
        return killed

    def kill_at_any_instant(
        self, role: str, size: Callable[[], int], dice: random.Random, most: int
    ) -> bool:
        """Start one and kill it: early, when it may not have done anything yet, or when what
        `size` tells of has grown by up to `most`. Never by the clock alone: a slow machine would
        never have begun, a fast one be done too soon."""
        goal = size() + dice.randint(1, most) if dice.random() < WAITS else 0
        pid, deadline = self.start(role), time.monotonic() + PATIENCE
        while size() < goal and not has_ended(pid):
            assert time.monotonic() < deadline, "it gets nowhere"
            time.sleep(0.002)
        time.sleep(dice.uniform(0.0, 0.01 if goal else 0.06))
        return self.kill(pid)

    def wait(self, pid: int) -> int:
        return self._ask("wait", pid)

    def _ask(self, *words: object) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def nursery_of(module: str, folder: Path) -> Iterator[Nursery]:
    nursery = Nursery(module, folder)
    try:
        yield nursery
    finally:
        assert nursery.process.stdin
        nursery.process.stdin.close()
        nursery.process.wait(timeout=PATIENCE)


def has_ended(pid: int) -> bool:
    """A child of the nursery that nobody has waited for yet is a zombie."""
    return state_of(pid) == "Z"


def state_of(pid: int) -> str:
    """A letter, as `ps` shows it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def size_of(folder: Path, pattern: str) -> int:
    """Of all the files there together."""
    return sum(path.stat().st_size for path in folder.glob(pattern))


def fork(role: Role, folder: str) -> int:
    pid = os.fork()
    if pid == 0:
        os.dup2(2, 1)  # Answers are the nursery's; a child's log lines go to stderr.
        random.seed(os.getpid())
        try:
            asyncio.run(role(Path(folder)))
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{role.__name__}: {error!r}\n".encode())
            os._exit(1)
    return pid


def serve(roles: dict[str, Role]) -> None:
    alive: set[int] = set()
    for line in sys.stdin:
        verb, *details = line.split()
        if verb == "start":
            answer = fork(roles[details[0]], details[1])
            alive.add(answer)
        else:
            pid = int(details[0])
            if verb == "kill":
                os.kill(pid, signal.SIGKILL)
            answer = os.waitpid(pid, 0)[1]
            alive.remove(pid)
        print(answer, flush=True)
    for pid in alive:  # The test has failed half-way.
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    serve(importlib.import_module(f"tests.crash.{sys.argv[1]}").ROLES)
