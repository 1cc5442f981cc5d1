"""Break the code on purpose, one place at a time, and see that the tests notice.

The list is tests/mutants/*.toml. Each mutant is applied to a copy of the tree, in which the tests
that it names must fail; those that did must pass in a copy without it. `--write` brings the table
of docs/why/mutants.md up to date.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
LISTS = ROOT / "tests" / "mutants"
PAGE = ROOT / "docs" / "why" / "mutants.md"
MARK = "<!-- The rest is written by scripts/mutants.py --write. -->\n"
COPIED = ("src", "tests", "scripts", "examples", "docs", "deploy", "bench")
TEST_FAILED = 1  # pytest's exit code when tests ran and some failed; all others prove nothing.
KILLED, SURVIVED = "killed", "survived"


@dataclass(frozen=True, slots=True)
class Mutant:
    area: str
    name: str
    file: str
    why: str
    find: str
    replace: str
    tests: Sequence[str]

    @property
    def full_name(self) -> str:
        return f"{self.area}/{self.name}"

    def applied(self, text: str) -> str:
        if text.count(self.find) != 1:
            raise ValueError(f"{self.name}: {self.file} must hold its text exactly once")
        return text.replace(self.find, self.replace)


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    words: str
    failed: Sequence[str]  # The tests that noticed.


def mutants() -> list[Mutant]:
    found = []
    for path in sorted(LISTS.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            found.append(Mutant(area=path.stem, **entry))
    return found


def main() -> int:
    wanted = _arguments()
    chosen = [m for m in behind(mutants(), wanted.after) if wanted.only in m.full_name]
    if wanted.write:
        PAGE.write_text(page_with(PAGE.read_text(), mutants()))
        return 0
    if not chosen:
        print(f"error: no mutant's name holds {wanted.only!r}", file=sys.stderr)
        return 2
    return _report(_run_all(chosen, wanted.workers))


def behind(listed: Sequence[Mutant], name: str) -> Sequence[Mutant]:
    """Those that come after the one of this name; all if there is none."""
    names = [mutant.full_name for mutant in listed]
    return listed[names.index(name) + 1 :] if name in names else listed


def table(chosen: Sequence[Mutant]) -> Iterator[str]:
    yield "| area | mutant | file | what it would break |\n|---|---|---|---|\n"
    for mutant in chosen:
        file = mutant.file.removeprefix("src/trawlnet/")
        yield f"| {mutant.area} | {mutant.name} | `{file}` | {mutant.why} |\n"


def page_with(page: str, chosen: Sequence[Mutant]) -> str:
    """The page, with the table of these below its mark."""
    return page.partition(MARK)[0] + MARK + "\n" + "".join(table(chosen))


def _report(verdicts: Sequence[Verdict]) -> int:
    survivors = [verdict for verdict in verdicts if verdict.words != KILLED]
    print(f"mutants: {len(verdicts) - len(survivors)} of {len(verdicts)} killed")
    for survivor in survivors:
        print(f"  {survivor.words}: {survivor.mutant.full_name}")
    return 1 if survivors else 0


def _run_all(chosen: Sequence[Mutant], workers: int) -> list[Verdict]:
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in chosen:
        waiting.put(mutant)
    verdicts: list[Verdict] = []
    threads = [
        threading.Thread(target=_work, args=(waiting, verdicts)) for _ in range(max(1, workers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _checked(verdicts)


def _work(waiting: queue.SimpleQueue[Mutant], verdicts: list[Verdict]) -> None:
    """Take mutants until none is left, all in one copy of the tree."""
    with _copy() as copy:
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            started = time.monotonic()
            verdict = copy.verdict(mutant)
            verdicts.append(verdict)
            seconds = time.monotonic() - started
            by = f" by {', '.join(verdict.failed)}" if verdict.failed else ""
            print(f"{verdict.words:9} {mutant.full_name} ({seconds:.0f} s){by}", flush=True)


def _checked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """A test that fails in an unbroken copy as well has noticed nothing."""
    killers = sorted({test for verdict in verdicts for test in verdict.failed})
    if not killers:
        return list(verdicts)
    with _copy() as copy:
        done = copy.tested(killers, stop_at_first=False)
    broken = set(failed_tests(done.stdout))
    code = done.returncode
    print(f"without a mutant: {len(killers) - len(broken)} of {len(killers)} of these tests pass")
    if code not in (0, TEST_FAILED):
        print(done.stdout.decode(errors="replace"))
        broken = set(killers)
    words = "no verdict (its test fails without it, too)"
    return [
        replace(verdict, words=words) if broken & set(verdict.failed) else verdict
        for verdict in verdicts
    ]


def failed_tests(output: bytes) -> list[str]:
    """Which tests failed, without their parameters, by pytest's short summary."""
    found = re.findall(rb"^FAILED (\S+?)(?:\[.*|\s.*)?$", output, re.MULTILINE)
    return [name.decode() for name in dict.fromkeys(found)]


@contextlib.contextmanager
def _copy() -> Iterator[Copy]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        if (fixtures := ROOT.parent / "shared").is_dir():
            (tree.parent / "shared").symlink_to(fixtures)
        for name in COPIED:
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ROOT.glob("*.*"):
            if file.is_file():
                shutil.copy(file, tree)
        yield Copy(tree)


class Copy:
    """A copy of the tree, with at most one mutant in it at a time."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._built = True  # What is compiled is what the sources say.

    def verdict(self, mutant: Mutant) -> Verdict:
        path = self._tree / mutant.file
        original = path.read_text()
        self._write(path, mutant.applied(original))
        try:
            self._build()
            done = self.tested(mutant.tests)
        finally:
            self._write(path, original)
        return Verdict(mutant, words_for(done), tuple(failed_tests(done.stdout)))

    def tested(
        self, tests: Sequence[str], *, stop_at_first: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        # Compiled once, the package serves all mutants: a process compiles it for seconds.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PYTHONPATH": str(self._tree / "src"), "TRAWLNET_SHRINK": "0"}
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", *tests]
        if stop_at_first:
            command.append("-x")
        return subprocess.run(command, cwd=self._tree, env=env, check=False, capture_output=True)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        if path.suffix in (".c", ".h"):
            self._built = False
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()  # Python compares seconds and sizes only, which may be equal.

    def _build(self) -> None:
        if self._built:
            return
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        subprocess.run(build, cwd=self._tree, check=True, capture_output=True)
        self._built = True


def words_for(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode == 0:
        return SURVIVED
    if done.returncode != TEST_FAILED:
        return f"no verdict (pytest exit {done.returncode})"
    if b"from pytest-timeout" in done.stdout:
        return "no verdict (a test ran into its time limit)"  # So would one on a slow machine.
    if not failed_tests(done.stdout):
        return "no verdict (a test could not begin)"
    return KILLED


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run mutants whose area/name holds this")
    parser.add_argument("--after", default="", help="area/name: go on behind this one")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.name}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
