"""The program in a process of its own, forked from one that has imported it: a Python that begins
anew takes a second of CPU for its imports, and a run of all tests begins more than a thousand."""

from __future__ import annotations

import atexit
import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trawlnet.cli.main import main

# What commands load when they are called. Nothing that begins a thread, and no server's client.
_IMPORTED = (
    "tests.support.forked",
    "trawlnet.cli.common.verbs",
    "trawlnet.cli.crawl.verb",
    "trawlnet.cli.ids.crawler",
    "trawlnet.cli.pds.list",
    "trawlnet.cli.repos.archive",
    "trawlnet.cli.repos.known_keys",
    "trawlnet.cli.repos.verify",
    "trawlnet.cli.web.crawl",
    "trawlnet.crawlers.ids.build",
    "trawlnet.crawlers.pds.build",
    "trawlnet.crawlers.repos.build",
)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(list(_IMPORTED))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process is begun with; files by name, since it is no child of the test's."""

    out: Path
    err: Path
    env: Mapping[str, str]
    stdin: Path = Path(os.devnull)
    cwd: Path | None = None


class Forked:
    """As much of a `Popen` as tests use."""

    def __init__(self, arguments: Sequence[str], given: Surroundings) -> None:
        self._process = _CONTEXT.Process(target=_run, args=(arguments, given))
        self._process.start()
        pid = self._process.pid
        assert pid is not None
        self.pid: int = pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("trawlnet", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(arguments: Sequence[str], given: Surroundings) -> None:
    made = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    _put(given.stdin, os.O_RDONLY, 0)
    _put(given.out, made, 1)
    _put(given.err, made, 2)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end.
    sys.stderr = open(  # noqa: SIM115
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    os.environ.clear()
    os.environ.update(given.env)
    if given.cwd is not None:
        os.chdir(given.cwd)
    sys.argv = ["trawlnet", *arguments]
    # The parent's are not ours, and ours are not run at the end of a process like this one.
    atexit._clear()
    try:
        main()
    finally:
        atexit._run_exitfuncs()


def _put(path: Path, flags: int, number: int) -> None:
    fd = os.open(path, flags, 0o644)
    os.dup2(fd, number)
    os.close(fd)
