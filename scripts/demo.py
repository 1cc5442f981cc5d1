"""The demo: crawl a small network, kill the crawl half-way, carry on, and count what is there.

`make demo` runs it. It needs nothing but loopback, leaves its files in .demo/ and fails loudly
when a single repository is missing, wrong, or was asked for impolitely.
"""

# ruff: noqa: T201, S603 - A demo talks to its reader and starts the commands that it shows.
from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # This working copy, whether or not it is installed.

from demo_checks import (  # noqa: E402 - Needs the path set above.
    Check,
    Kill,
    Truth,
    check_archive,
    check_failures,
    check_manners,
)

# The same program as `trawlnet`, whether or not it is installed or on the path.
PROGRAM = [sys.executable, "-c", "from trawlnet.cli.main import main; main()"]
PATIENCE = 120.0  # Seconds for any one step before the demo gives up.


@dataclass(frozen=True, slots=True)
class Setting:
    seed: int
    scale: float
    rps: float  # Requests per second to one server: in a demo we are in more of a hurry.
    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "net"

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def requests(self) -> Path:
        return self.folder / "requests.jsonl"


def main() -> int:
    setting = parse(sys.argv[1:])
    # A polite kill unwinds like Ctrl-C, so that no process outlives the demo.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return tell_story(setting)
    except KeyboardInterrupt:
        return 130
    except Trouble as trouble:
        print(f"\nthe demo failed: {trouble}", file=sys.stderr)
        return 1


class Trouble(Exception):
    """A step did not go as it must."""


def parse(arguments: Sequence[str]) -> Setting:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7, help="which network (default 7)")
    parser.add_argument("--scale", type=float, default=2.0, help="its size: 1 is 200 accounts")
    parser.add_argument("--rps", type=float, default=20.0, help="requests per second and server")
    parser.add_argument("--folder", type=Path, default=Path(".demo"), help="where its files go")
    given = parser.parse_args(arguments)
    return Setting(given.seed, given.scale, given.rps, given.folder)


def tell_story(setting: Setting) -> int:
    begun = time.monotonic()
    shutil.rmtree(setting.folder, ignore_errors=True)
    setting.folder.mkdir(parents=True)
    print("Crawl a network, pull the plug half-way, carry on, and count.\n", flush=True)
    step(1, "A simulated network on loopback, with servers good and bad")
    with simulated(setting) as world:
        truth = Truth.read(setting.manifest)
        print(f"  {truth.summary()}")
        crawl = crawl_command(setting, world["relay"])

        step(2, "Crawl it, and kill the crawl with SIGKILL when half of it is done")
        half = len(truth.repos) // 2
        there, killed_at = run_and_kill(crawl, setting, half)
        print(f"  killed: {there} of {len(truth.repos)} repositories were on disk")
        kill = Kill(killed_at, settled(setting))

        step(3, "The same command again: to run is to resume")
        code = run_to_the_end(crawl)
        finished = time.time()
        print(f"  {meaning_of(code)}")

        step(4, "Compare with what the network knows to be true")
        checks = [
            *check_archive(setting.workspace, truth),
            *check_failures(truth, failures(setting)),
        ]
    # Its log of requests is whole once the network has been stopped.
    checks += check_manners(setting.requests, setting.rps, kill, finished)
    return sum_up(checks, setting, time.monotonic() - begun)


def step(number: int, what: str) -> None:
    print(f"\n{number}. {what}", flush=True)


@contextmanager
def simulated(setting: Setting) -> Iterator[dict[str, Any]]:
    """The network, for as long as the body takes."""
    script = Path(__file__).with_name("demo_network.py")
    words = [str(setting.seed), f"{setting.scale:g}", str(setting.folder)]
    print(f"  $ python scripts/{script.name} {shlex.join(words)}", flush=True)
    command = [sys.executable, str(script), *words]
    with ended_with_body(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            raise Trouble("the simulated network did not start")
        yield json.loads(ready)


def crawl_command(setting: Setting, relay: str) -> list[str]:
    command = ["repos", "crawl", "-w", str(setting.workspace), "--relay", relay]
    command += ["--allow-private-hosts", "--default-pds-rps", f"{setting.rps:g}"]
    # Real servers get minutes and hours to recover; these are bad for moments, or for good.
    return [*command, "--attempts", "8", "--retry-base", "0.3", "--retry-cap", "2"]


def run_and_kill(command: Sequence[str], setting: Setting, half: int) -> tuple[int, float]:
    """Returns how many repositories were on disk when the crawl was killed, and when that was."""
    index = setting.workspace / "archive" / "index.jsonl"
    deadline = time.monotonic() + PATIENCE
    with started(command) as process:
        while (there := lines_in(index)) < half:
            if process.poll() is not None:
                raise Trouble(f"the crawl ended with {process.returncode} before it was half done")
            if time.monotonic() > deadline:
                raise Trouble(f"only {there} repositories after {PATIENCE:.0f} s")
            time.sleep(0.02)
        process.kill()
        process.wait()
        killed_at = time.time()
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)  # The killed view had hidden the cursor.
    return lines_in(index), killed_at


def run_to_the_end(command: Sequence[str]) -> int:
    with started(command) as process:
        code = process.wait(PATIENCE)
    if code not in _MEANINGS:
        raise Trouble(f"the crawl ended with exit code {code}")
    return code


_MEANINGS = {
    0: "exit code 0: done",
    3: "exit code 3: done, and some servers were given up on (they are dead or broken on purpose)",
}


def meaning_of(code: int) -> str:
    return _MEANINGS[code]


def settled(setting: Setting) -> int:
    """What the store of the killed crawl knows to be done."""
    command = ["repos", "status", "-w", str(setting.workspace), "--json"]
    with started(command, stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    count = sum(json.loads(out)["settled"].values())
    print(f"  and {count} tasks were settled: pages of listings, repositories, refusals")
    return int(count)


def failures(setting: Setting) -> dict[str, str]:
    """The reason for everything that was not archived, by DID and server, as the command line
    lists it."""
    command = ["repos", "failures", "-w", str(setting.workspace), "--json"]
    with started(command, stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    rows = map(json.loads, out.splitlines())
    return {f"{row['key']}@{row['lane']}": row["reason"] for row in rows}


def sum_up(checks: Sequence[Check], setting: Setting, seconds: float) -> int:
    width = max(len(check.what) for check in checks)
    for check in checks:
        print(f"  {'ok    ' if check.good else 'FAILED'}  {check.what:<{width}}  {check.figures}")
    bad = [check for check in checks if not check.good]
    if bad:
        print(f"\n{len(bad)} of {len(checks)} checks failed; the files are in {setting.folder}/")
        return 1
    where = setting.workspace
    print(f"\nNothing was lost ({seconds:.0f} s). Look around:\n")
    print(f"  trawlnet repos status -w {where}        # how far it got, by reason")
    print(f"  trawlnet repos failures -w {where}      # who is not archived, and why")
    print(f"  head -3 {where}/archive/index.jsonl     # what is: key, sha256, size")
    print("  trawlnet sim atproto --help               # a network of your own to crawl")
    print("\nIf `trawlnet` is not found, write .venv/bin/trawlnet.")
    return 0


def lines_in(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def started(
    arguments: Sequence[str], **how: Any
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A command of trawlnet, shown as one would type it."""
    print(f"  $ {shlex.join(['trawlnet', *arguments])}", flush=True)
    return ended_with_body([*PROGRAM, *arguments], **how)


@contextmanager
def ended_with_body(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **how)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    sys.exit(main())
