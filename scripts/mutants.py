"""Break the code on purpose, one place at a time, and see that the tests notice.

The list is tests/mutants/*.toml. Each mutant is applied to a copy of the tree, in which the tests
that it names must fail. `--write` brings the table of docs/why/mutants.md up to date.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LISTS = ROOT / "tests" / "mutants"
PAGE = ROOT / "docs" / "why" / "mutants.md"
MARK = "<!-- The rest is written by scripts/mutants.py --write. -->\n"
COPIED = ("src", "tests", "scripts", "examples", "docs", "deploy", "bench")
TEST_FAILED = 1  # pytest's exit code when tests ran and some failed; all others prove nothing.


@dataclass(frozen=True, slots=True)
class Mutant:
    area: str
    name: str
    file: str
    why: str
    find: str
    replace: str
    tests: Sequence[str]

    def applied(self, text: str) -> str:
        if text.count(self.find) != 1:
            raise ValueError(f"{self.name}: {self.file} must hold its text exactly once")
        return text.replace(self.find, self.replace)


def mutants() -> list[Mutant]:
    found = []
    for path in sorted(LISTS.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            found.append(Mutant(area=path.stem, **entry))
    return found


def main() -> int:
    wanted = _arguments()
    chosen = [m for m in mutants() if wanted.only in f"{m.area}/{m.name}"]
    if wanted.write:
        PAGE.write_text(page_with(PAGE.read_text(), mutants()))
        return 0
    if not chosen:
        print(f"error: no mutant's name holds {wanted.only!r}", file=sys.stderr)
        return 2
    return _report(_run_all(chosen, wanted.workers), len(chosen))


def table(chosen: Sequence[Mutant]) -> Iterator[str]:
    yield "| area | mutant | file | what it would break |\n|---|---|---|---|\n"
    for mutant in chosen:
        file = mutant.file.removeprefix("src/trawlnet/")
        yield f"| {mutant.area} | {mutant.name} | `{file}` | {mutant.why} |\n"


def page_with(page: str, chosen: Sequence[Mutant]) -> str:
    """The page, with the table of these below its mark."""
    return page.partition(MARK)[0] + MARK + "\n" + "".join(table(chosen))


def _report(survivors: list[str], count: int) -> int:
    print(f"mutants: {count - len(survivors)} of {count} killed")
    for survivor in survivors:
        print(f"  survived: {survivor}")
    return 1 if survivors else 0


def _run_all(chosen: Sequence[Mutant], workers: int) -> list[str]:
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in chosen:
        waiting.put(mutant)
    survivors: list[str] = []
    threads = [
        threading.Thread(target=_work, args=(waiting, survivors)) for _ in range(max(1, workers))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return survivors


def _work(waiting: queue.SimpleQueue[Mutant], survivors: list[str]) -> None:
    """Take mutants until none is left, all in one copy of the tree."""
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
        while True:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            started = time.monotonic()
            verdict = _verdict(mutant, tree)
            if verdict != "killed":
                survivors.append(f"{mutant.area}/{mutant.name}: {verdict}")
            seconds = time.monotonic() - started
            print(f"{verdict:9} {mutant.area}/{mutant.name} ({seconds:.0f} s)", flush=True)


def _verdict(mutant: Mutant, tree: Path) -> str:
    path = tree / mutant.file
    original = path.read_text()
    path.write_text(mutant.applied(original))
    try:
        _built(mutant, tree)
        done = _tested(mutant, tree)
    finally:
        path.write_text(original)
        _built(mutant, tree)
    if done.returncode == TEST_FAILED:
        return "killed"
    return "survived" if done.returncode == 0 else f"no verdict (pytest exit {done.returncode})"


def _built(mutant: Mutant, tree: Path) -> None:
    if mutant.file.endswith((".c", ".h")):
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        subprocess.run(build, cwd=tree, check=True, capture_output=True)


def _tested(mutant: Mutant, tree: Path) -> subprocess.CompletedProcess[bytes]:
    env = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    env["TRAWLNET_SHRINK"] = "0"
    command = [sys.executable, "-m", "pytest", "-x", "-q", *mutant.tests]
    return subprocess.run(command, cwd=tree, env=env, check=False, capture_output=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run mutants whose area/name holds this")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--write", action="store_true", help=f"write the table of {PAGE.name}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
