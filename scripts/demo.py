"""The demo: archive a small network, pull the plug half-way, carry on, count, and query.

`make demo` runs it. It needs nothing but loopback, leaves its files in .demo/ and fails loudly
when a single record is missing, wrong, or was asked for impolitely.
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
from collections.abc import Iterator, Mapping, Sequence
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
    archived,
    check_archive,
    check_failures,
    check_manners,
    check_table,
)

from trawlnet.archive.format.rca import RcaError  # noqa: E402
from trawlnet.archive.reader import NoArchive  # noqa: E402

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
    print("Archive a network, pull the plug half-way, carry on, and count.\n", flush=True)
    step(1, "A simulated network on loopback, with servers good and bad")
    with simulated(setting) as world:
        truth = Truth.read(setting.manifest)
        print(f"  {truth.summary()}")

        step(2, "Mirror the directory: who exists, where they live, which key is theirs")
        run_to_the_end(["repos", "plc", *common(setting, world)])

        step(3, "Fetch every repository, and kill the crawl with SIGKILL half-way")
        crawl = crawl_command(setting, world)
        there, killed_at = run_and_kill(crawl, setting, len(truth.repos) // 2)
        print(f"  killed: {there} of {len(truth.repos)} repositories were on disk")
        kill = Kill(killed_at, settled(setting))

        step(4, "The same command again: to run is to resume")
        print(f"  {meaning_of(run_to_the_end(crawl))}")
        failed = failures(setting)

    step(5, "Check every byte of the archive")
    run_to_the_end(["repos", "verify", str(setting.workspace / "archive")])

    step(6, "Replay the archive into the embedded ClickHouse, and ask it something")
    run_to_the_end(["repos", "replay", "-w", str(setting.workspace)])
    for question in QUESTIONS:
        run_to_the_end(query(setting, question))
    rows = asked(query(setting, PER_COLLECTION))

    step(7, "Compare with what the network knows to be true")
    checks = [
        *check_archive(setting.workspace, truth),
        check_table(truth, rows),
        *check_failures(truth, failed),
        *check_manners(setting.requests, setting.rps, kill),
    ]
    return sum_up(checks, setting, time.monotonic() - begun)


PER_COLLECTION = "SELECT collection, count() AS records FROM repo_records GROUP BY collection"
QUESTIONS = (
    "SELECT collection, uniq(repo) AS repos, count() AS records FROM repo_records "
    "GROUP BY collection ORDER BY records DESC LIMIT 5",
    "SELECT pds, uniq(repo) AS authors, count() AS posts FROM repo_records "
    "JOIN plc_did_state ON repo = did WHERE collection = 'app.bsky.feed.post' "
    "GROUP BY pds ORDER BY posts DESC LIMIT 3",
)


def query(setting: Setting, sql: str) -> list[str]:
    return ["repos", "query", "-w", str(setting.workspace), sql]


def step(number: int, what: str) -> None:
    print(f"\n{number}. {what}", flush=True)


@contextmanager
def simulated(setting: Setting) -> Iterator[dict[str, Any]]:
    """The network, for as long as the body takes."""
    files = ["--manifest", str(setting.manifest), "--log", str(setting.requests)]
    words = ["sim", "atproto", "--seed", str(setting.seed), "--scale", f"{setting.scale:g}", *files]
    print(f"  $ trawlnet {shlex.join(words)}", flush=True)
    command = [*PROGRAM, *words]
    with ended_with_body(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            raise Trouble("the simulated network did not start")
        yield json.loads(ready)


def common(setting: Setting, world: Mapping[str, Any]) -> list[str]:
    workspace = ["-w", str(setting.workspace)]
    return [*workspace, "--plc-url", world["plc"], "--allow-private-hosts"]


def crawl_command(setting: Setting, world: Mapping[str, Any]) -> list[str]:
    rps = f"{setting.rps:g}"
    rates = ["--default-pds-rps", rps, "--small-pds-rps", rps, "--large-pds-rps", rps]
    # Real servers get minutes and hours to recover; these are bad for moments, or for good.
    haste = ["--attempts", "8", "--retry-base", "0.3", "--retry-cap", "2"]
    return ["repos", "crawl", *common(setting, world), *rates, *haste]


def run_and_kill(command: Sequence[str], setting: Setting, half: int) -> tuple[int, float]:
    """Returns how many repositories were on disk when the crawl was killed, and when that was."""
    deadline = time.monotonic() + PATIENCE
    with started(command) as process:
        while (there := on_disk(setting)) < half:
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
    return on_disk(setting), killed_at


def on_disk(setting: Setting) -> int:
    try:
        return len(archived(setting.workspace))
    except (NoArchive, RcaError):
        return 0  # Its first bytes are still to be written.


def run_to_the_end(command: Sequence[str]) -> int:
    with started(command) as process:
        code = process.wait(PATIENCE)
    if code not in _MEANINGS:
        raise Trouble(f"trawlnet {' '.join(command[:2])} ended with exit code {code}")
    return code


_MEANINGS = {
    0: "exit code 0: done",
    3: "exit code 3: done, and some servers were given up on (they are dead or broken on purpose)",
}


def meaning_of(code: int) -> str:
    return _MEANINGS[code]


def settled(setting: Setting) -> int:
    """What the store of the killed crawl knows to be done."""
    (row,) = asked(["repos", "status", "-w", str(setting.workspace)])
    failures = asked(["repos", "failures", "-w", str(setting.workspace)])
    # Accounts without a server are on record, too, and nobody was asked about them.
    left_out = sum(failure["lane"] == "no directory" for failure in failures)
    count = sum(row["settled"].values()) - left_out
    print(f"  settled: {count} accounts, archived or known to have no repository")
    return int(count)


def failures(setting: Setting) -> dict[str, str]:
    """The reason for everything that was not archived, by DID, as the command line lists it."""
    rows = asked(["repos", "failures", "-w", str(setting.workspace)])
    return {row["key"]: row["reason"] for row in rows}


def asked(command: Sequence[str]) -> list[dict[str, Any]]:
    """The rows that a command prints for programs."""
    with started([*command, "--json"], stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    return [json.loads(line) for line in out.splitlines()]


def sum_up(checks: Sequence[Check], setting: Setting, seconds: float) -> int:
    width = max(len(check.what) for check in checks)
    for check in checks:
        print(f"  {'ok    ' if check.good else 'FAILED'}  {check.what:<{width}}  {check.figures}")
    bad = [check for check in checks if not check.good]
    if bad:
        print(f"\n{len(bad)} of {len(checks)} checks failed; the files are in {setting.folder}/")
        return 1
    where, trawlnet = setting.workspace, typed()
    print(f"\nNothing was lost ({seconds:.0f} s). Look around:\n")
    print(f"  {trawlnet} repos status -w {where}          # how far it got, by reason")
    print(f"  {trawlnet} repos failures -w {where}        # who is not archived, and why")
    print(f"  {trawlnet} repos tally {where}/archive      # what is, by collection")
    print(f"  {trawlnet} repos query -w {where} '{COUNT}'")
    print("\nThe real network, politely (the first one takes hours, the second one days):\n")
    print(f"  {trawlnet} repos plc -w ./net --contact you@example.org")
    print(f"  {trawlnet} repos crawl -w ./net --contact you@example.org")
    return 0


COUNT = "SELECT count() FROM repo_records"


def typed() -> str:
    """What a reader has to type here: `make demo` installs it where no shell looks."""
    beside = Path(sys.executable).with_name("trawlnet")
    if shutil.which("trawlnet") or not beside.exists():
        return "trawlnet"
    here = Path.cwd()
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)


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
