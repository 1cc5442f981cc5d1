"""Run the real program as a process, the way its users do."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.child import ROOT
from tests.support.forked import Forked, Surroundings
from trawlnet.cli.main import run

SOURCE = ROOT / "src"
PATIENCE = 120.0  # Seconds; only a test that fails waits that long.


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        """The last line of stderr, as `--json` prints it."""
        said: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return said


def environment(**more: str) -> dict[str, str]:
    """Nothing of the tester's own settings reaches the program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAWLNET_")}
    return kept | {"PYTHONPATH": str(SOURCE), "COLUMNS": "80", "NO_COLOR": "1"} | more


def trawlnet(*arguments: object, cwd: Path | None = None, stdin: str = "", **variables: str) -> Ran:
    """Variables may be read when modules are imported: then by a Python that begins anew."""
    words = [str(argument) for argument in arguments]
    if not variables:
        return _forked(words, cwd, stdin)
    done = subprocess.run(
        [sys.executable, "-m", "trawlnet", *words],
        capture_output=True,
        text=True,
        input=stdin,
        cwd=cwd,
        env=environment(**variables),
        timeout=PATIENCE,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def _forked(words: list[str], cwd: Path | None, stdin: str) -> Ran:
    with TemporaryDirectory() as name:
        folder = Path(name)
        given, out, err = (folder / name for name in ("in", "out", "err"))
        given.write_text(stdin)
        process = Forked(words, Surroundings(out, err, environment(), given, cwd))
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Ran(code, out.read_text(), err.read_text())


@contextmanager
def _captured() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        yield out, err


def at_once(*arguments: object) -> Ran:
    """The same command line without a process of its own: for one that ends before it works."""
    with _captured() as (out, err):
        code = run([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


class Started:
    """The program while it runs; its output goes to files, so that no pipe can fill up."""

    def __init__(self, arguments: tuple[object, ...], folder: Path, variables: Mapping[str, str]):
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.out")))
        self._out, self._err = folder / f"{number}.out", folder / f"{number}.err"
        words = [str(argument) for argument in arguments]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = (
                subprocess.Popen(
                    [sys.executable, "-m", "trawlnet", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=environment(**variables),
                )
                if variables
                else Forked(words, Surroundings(self._out, self._err, environment()))
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def says(self, words: str) -> None:
        """Wait until the words are on stderr."""
        self.until(lambda: words in self.err, f"{words!r} in:\n{self.err}")

    def until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            if self.process.poll() is not None and not true():
                raise AssertionError(f"ended with {self.process.returncode}; {what}\n{self.err}")
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}\n{self.err}")
            time.sleep(0.02)

    def ended(self) -> Ran:
        code = self.process.wait(PATIENCE)
        return Ran(code, self.out, self.err)


@contextmanager
def started(*arguments: object, folder: Path, **variables: str) -> Iterator[Started]:
    program = Started(arguments, folder, variables)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
        program.process.wait()


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
