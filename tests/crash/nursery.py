"""Forks processes on request, so that a test can kill many of them without starting Python anew.

Run as `python nursery.py MODULE`: the module has ROLES, coroutine functions of a folder.
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
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Role = Callable[[Path], Coroutine[Any, Any, None]]


class Nursery:
    """The test's side."""

    def __init__(self, module: str, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, __file__, module],
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")},
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
        nursery.process.wait(timeout=60)


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
    sys.path.insert(0, str(HERE))
    serve(importlib.import_module(sys.argv[1]).ROLES)
