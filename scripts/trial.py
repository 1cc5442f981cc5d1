"""What an installed trawlnet has to do: show its native code, and crawl, be killed and continue.

    scripts/trial.py FOLDER     # the environment that it is installed in

Needs nothing but that and loopback.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steps import ran, step

NATIVE = ("native core", "native zstd", "native pages")
SLOWLY = ("--default-pds-rps=10", "--small-pds-rps=10", "--plc-rps=100")  # Time for a kill.
FAST = ("--default-pds-rps=50", "--small-pds-rps=50", "--plc-rps=100")
PATIENCE = 120.0  # Seconds.


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="an environment with trawlnet in it")
    arguments = parser.parse_args()
    folder: Path = arguments.folder.resolve()
    with tempfile.TemporaryDirectory() as name:
        trial = Trial(folder / "bin", Path(name))
        step("doctor shows native code", trial.examined)
        step("a crawl is killed and continued", trial.crawled)
    return 0


class Trial:
    def __init__(self, tools: Path, scratch: Path) -> None:
        self._trawlnet = str(tools / "trawlnet")
        # Nothing beside the interpreter: no compiler, and no settings of whoever runs this.
        self._alone = {"PATH": str(tools), "CC": "false", "TRAWLNET_NATIVE": "", "PYTHONPATH": ""}
        self._scratch = scratch
        self._net = scratch / "net"

    def examined(self) -> str:
        rows = map(json.loads, self._ran("doctor", "--json").splitlines())
        marks = {row["what"]: row["mark"] for row in rows}
        missing = [what for what in NATIVE if marks.get(what) != "ok"]
        if missing:
            raise SystemExit(f"error: doctor does not find {', '.join(missing)}")
        return ", ".join(NATIVE)

    def crawled(self) -> str:
        with self._network() as (world, wanted):
            where = (f"--relay={world['relay']}", f"--plc-url={world['plc']}")
            crawl = ("repos", "crawl", "-w", str(self._net), *where, "--allow-private-hosts")
            there = self._killed(wanted // 2, (*crawl, *SLOWLY))
            self._ran(*crawl, *FAST)
        if self._archived() != wanted:
            raise SystemExit(f"error: {self._archived()} repositories came home, not {wanted}")
        return f"{wanted} repositories, {there} of them before the kill"

    def _killed(self, enough: int, crawl: tuple[str, ...]) -> int:
        """How many repositories were on disk by then."""
        deadline = time.monotonic() + PATIENCE
        process = subprocess.Popen([self._trawlnet, *crawl], **self._quietly())
        try:
            while self._archived() < enough:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("error: the crawl was not to be killed half-way")
        finally:
            process.kill()
            process.wait()
        return self._archived()

    def _archived(self) -> int:
        """Without blocks that are there twice; none before the first bytes are written."""
        verify = [self._trawlnet, "repos", "verify", "--json", str(self._net / "archive")]
        told = subprocess.run(verify, env={**os.environ, **self._alone}, capture_output=True)
        if told.returncode:
            return 0
        row = json.loads(told.stdout.splitlines()[0])
        return int(row["blocks"]) - int(row["superseded"])

    @contextmanager
    def _network(self) -> Iterator[tuple[dict[str, str], int]]:
        """Where its servers are, and how many repositories a perfect crawl brings home."""
        manifest = self._scratch / "manifest.json"
        words = ["sim", "atproto", "--healthy", "--scale", "0.2", "--manifest", str(manifest)]
        how = {**self._quietly(), "stdout": subprocess.PIPE}
        world = subprocess.Popen([self._trawlnet, *words], **how)
        try:
            assert world.stdout is not None
            where = json.loads(world.stdout.readline())
            accounts = json.loads(manifest.read_bytes())["dids"].values()
            yield where, sum(row["archivable"] for row in accounts)
        finally:
            world.terminate()
            world.wait(PATIENCE)

    def _ran(self, *words: str) -> str:
        return ran([self._trawlnet, *words], self._scratch, **self._alone)

    def _quietly(self) -> dict[str, object]:
        environment = {**os.environ, **self._alone}
        return {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


if __name__ == "__main__":
    sys.exit(main())
