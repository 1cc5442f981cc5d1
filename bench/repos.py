"""A crawl of repositories from sockets to synced segments: `trawlnet repos crawl`, and a peer.

    .venv/bin/python bench/repos.py [--records mix|1000|5000|10000] [--repos N] [--rounds 3]
                                    [--rows full,hashes,off,documents,peer,hashing] [--folder KEPT]

nginx serves the repositories from files in the page cache, so that it costs both sides little.
Ours is the command as people run it, after `repos plc`: accounts and their keys come from the
mirror, which is filled before the clock starts. `full` verifies hashes, tree and signature (the
default), `hashes` no signature, `off` neither; `documents` is `full` without a mirror, so that each
account's document is asked for as well. The peer (bench/repos_peers/) is two processes, which
verify nothing; as `hashing` they verify hashes, and that is what `hashes` is held against. `mix` is
1,000 to 10,000 records, spread evenly on a logarithmic scale. Interleaved, medians. Wall time
includes the start of Python on both sides, and the embedded ClickHouse on ours; the same command
with nothing left to do says how much that is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from repos_world import Served, World, made_world, served

PEERS = ("peer", "hashing")
PROCESSES = 2  # Of a peer.
RECORDS_IN_A_RUN = 23_400_000  # About fifteen seconds of ours, so that its start counts little.
MIX, MEAN_OF_MIX = "mix", 3_900
MOST_REPOS = 10_000  # Lines that are read of one page of a directory's export.
SOURCE = Path(os.environ.get("SRC", ROOT / "src"))  # Of the trawlnet that is measured.
TRAWLNET = [sys.executable, "-m", "trawlnet", "repos"]


@dataclass(frozen=True)
class Run:
    wall: float
    cpu: float
    peak: int  # Bytes; the largest process.
    server: float  # CPU seconds of nginx.


def timed(commands: Sequence[Sequence[str]], server: subprocess.Popen[bytes]) -> Run:
    before, served_before = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_of(server.pid)
    start, peak = time.monotonic(), 0
    for process in [started(command) for command in commands]:
        assert process.stderr
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise SystemExit(f"{process.args}\n{said.decode()}")
        peak = max(peak, usage.ru_maxrss * 1024)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu, peak, cpu_of(server.pid) - served_before)


def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Contest:
    world: World
    serving: Served
    server: subprocess.Popen[bytes]
    scratch: Path

    def ours(self, row: str, workspace: Path) -> Run:
        flags = [f"--{size}-pds-rps=1000" for size in ("default", "small", "large")]
        if row == "documents":
            dids = self.scratch / "dids.txt"
            dids.write_text("\n".join(account.did for account in self.world.accounts) + "\n")
            flags += ["--source", "file", "--dids", str(dids), "--plc-rps", "1000"]
        else:
            self.timed_ours("plc", workspace, [])
            flags += ["--source", "plc", "--verify", row]
        return self.timed_ours("crawl", workspace, flags)

    def timed_ours(self, verb: str, workspace: Path, flags: Sequence[str]) -> Run:
        common = ["-w", str(workspace), "--plc-url", self.serving.directory]
        command = [*TRAWLNET, verb, *common, "--allow-private-hosts", *flags]
        return timed([command], self.server)

    def peer(self, row: str, folder: Path) -> Run:
        flags = ["hashes"] if row == "hashing" else []
        folder.mkdir()
        commands = []
        for number in range(PROCESSES):
            urls = folder / f"urls{number}.txt"
            urls.write_text("\n".join(self._urls()[number::PROCESSES]))
            script = str(ROOT / "bench/repos_peers/pipeline.py")
            output = str(folder / f"{number}.rca")
            commands.append([sys.executable, script, str(urls), output, *flags])
        return timed(commands, self.server)

    def _urls(self) -> list[str]:
        return [
            f"{self.serving.pds_of(one.did)}/xrpc/com.atproto.sync.getRepo?did={one.did}"
            for one in self.world.accounts
        ]

    def check(self, workspace: Path) -> None:
        """A result counts only if it is right."""
        command = [*TRAWLNET, "tally", str(workspace / "archive"), "--json"]
        told = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, check=True
        )
        tally = json.loads(told.stdout.splitlines()[-1])
        if (tally["repos"], tally["records"]) != (len(self.world.accounts), self.world.records):
            raise SystemExit(f"wrong result: {tally}")


def held(contest: Contest, rows: Sequence[str], rounds: int) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {row: [] for row in rows}
    starts: list[Run] = []
    for number in range(rounds):
        for row in rows:
            folder = contest.scratch / f"{row}{number}"
            if row in PEERS:
                runs[row].append(contest.peer(row, folder))
                continue
            runs[row].append(contest.ours(row, folder))
            contest.check(folder)
            if row == "full":
                starts.append(contest.timed_ours("crawl", folder, ["--source", "plc"]))
        for row in rows:
            shutil.rmtree(contest.scratch / f"{row}{number}")
        settled()
    return {**runs, "start": starts} if starts else runs


def settled() -> None:
    """Files made soon after others were deleted can cost more."""
    os.sync()
    time.sleep(3)


def report(world: World, runs: dict[str, list[Run]]) -> None:
    print(f"load average {os.getloadavg()[0]:.1f}, medians, interleaved")
    print(
        f"{'':10}{'records/s':>11}{'per CPU s':>11}{'wall s':>8}{'CPU s':>8}{'nginx s':>9}"
        f"{'peak MB':>9}{'by wall':>9}{'by CPU':>8}"
    )
    for name, taken in runs.items():
        wall, cpu = median(run.wall for run in taken), median(run.cpu for run in taken)
        server, peak = median(run.server for run in taken), max(run.peak for run in taken) / 1e6
        line = f"{name:10}{world.records / wall:11,.0f}{world.records / cpu:11,.0f}"
        if name == "start":
            line = f"{name:10}{'':22}"
        line += f"{wall:8.2f}{cpu:8.2f}{server:9.2f}{peak:9.0f}"
        peer = runs.get("hashing" if name == "hashes" else "peer")
        if peer and name not in (*PEERS, "start"):
            by_wall = median(run.wall for run in peer) / wall
            line += f"{by_wall:8.2f}x{median(run.cpu for run in peer) / cpu:7.2f}x"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", default=MIX)
    parser.add_argument("--repos", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="full,hashes,off,documents,peer,hashing")
    parser.add_argument("--folder", type=Path, help="where repositories are kept for another run")
    arguments = parser.parse_args()
    records = None if arguments.records == MIX else int(arguments.records)
    repos = arguments.repos or min(MOST_REPOS, RECORDS_IN_A_RUN // (records or MEAN_OF_MIX))
    scratch = Path(tempfile.mkdtemp(prefix="trawlnet-bench-"))
    try:
        folder = (arguments.folder or scratch) / f"world-{arguments.records}-{repos}"
        world = made_world(folder.resolve(), repos, records)
        print(
            f"{repos} repositories of {arguments.records} records, {world.records / 1e6:.1f} M "
            f"records, {world.size / 1e6:.0f} MB, {arguments.rounds} rounds"
        )
        with served(world, scratch) as (serving, server):
            contest = Contest(world, serving, server, scratch)
            runs = held(contest, arguments.rows.split(","), arguments.rounds)
        report(world, runs)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
