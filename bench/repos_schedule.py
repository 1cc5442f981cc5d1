"""How close a polite crawl comes to its ideal schedule, and how fast an impolite one goes.

    .venv/bin/python bench/repos_schedule.py polite   [--accounts 20000] [--hosts 300] [--rate 400]
    .venv/bin/python bench/repos_schedule.py flat-out [--accounts 100000] [--hosts 300]

`polite`: every host gets the same rate, chosen so that the largest one needs accounts/rate
seconds; that is the ideal, since no crawl can be done before its largest host is. The server's
own log tells the gaps between requests to one host. `flat-out`: no rate limit at all; the server
makes each repository when asked, on the same two cores, and its share is stated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]

ROUNDING = 0.002  # Seconds.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
PROGRAM = [sys.executable, "-m", "trawlnet", "repos"]


async def serve(accounts: int, hosts: int, folder: Path) -> None:
    from trawlnet.sim.atproto.world import serve_atproto

    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    world = await serve_atproto(
        1,
        accounts=accounts,
        hosts=hosts,
        habits=(),
        rate_limits=False,
        largest_repo=100,
        manifest=folder / "manifest.json",
        log=folder / "requests.jsonl",
    )
    print(json.dumps(world.ready_line()), flush=True)
    await told.wait()
    await world.close()


def usage_of(process: subprocess.Popen[Any]) -> tuple[int, float, int]:
    """Exit code, CPU seconds and peak bytes of a process, once it has ended."""
    _, status, usage = os.wait4(process.pid, 0)
    cpu = usage.ru_utime + usage.ru_stime
    return os.waitstatus_to_exitcode(status), cpu, usage.ru_maxrss * 1024


def crawl(folder: Path, plc: str, rps: float, flags: list[str]) -> tuple[float, float, int]:
    """Wall seconds from first to last request, CPU seconds and peak bytes of the crawl."""
    workspace = str(folder / "net")
    common = ["-w", workspace, "--plc-url", plc, "--allow-private-hosts"]
    subprocess.run([*PROGRAM, "plc", *common], env=ENVIRONMENT, check=True, capture_output=True)
    rates = [f"--{size}-pds-rps={rps}" for size in ("default", "small", "large")]
    process = subprocess.Popen(
        [*PROGRAM, "crawl", *common, *rates, *flags],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    begun = time.monotonic()
    code, cpu, peak = usage_of(process)
    if code not in (0, 3):
        raise SystemExit(f"the crawl ended with {code}; see {workspace}/logs")
    return time.monotonic() - begun, cpu, peak


def visits(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """By host, when each repository was asked for: as the server noted, and at the earliest."""
    asked: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with (folder / "requests.jsonl").open() as log:
        for line in log:
            row = json.loads(line)
            if "getRepo?" in row["path"]:
                asked[row["host"]].append((row["time"], row["since"]))
    return asked


def report_polite(folder: Path, rps: float, wall: float, cpu: float) -> None:
    asked = visits(folder)
    total = sum(map(len, asked.values()))
    first = min(map(min, asked.values()))[0]
    span = max(map(max, asked.values()))[0] - first
    largest = max(map(len, asked.values()))
    ideal = (largest - 1) / rps
    pairs = [pair for times in asked.values() for pair in pairwise(sorted(times))]
    gaps = sorted(later[0] - earlier[0] for earlier, later in pairs)
    # A busy server notes late: a gap was short for certain if even the most that it was is.
    short = sum(later[0] - earlier[1] < 1 / rps - ROUNDING for earlier, later in pairs)
    print(f"{total} requests to {len(asked)} hosts, {rps:.2f}/s each, {total / ideal:.0f}/s in all")
    print(f"ideal {ideal:.1f} s, taken {span:.1f} s: {ideal / span:.1%} of the ideal")
    print(f"command {wall:.1f} s, CPU {cpu:.1f} s ({cpu / total * 1e6:.0f} µs per repository)")
    print(
        f"{short} of {len(gaps)} gaps were too short for certain; as the server came to note them "
        f"the median was {median(gaps) * 1000:.1f} ms, of {1000 / rps:.1f} ms"
    )


def check(folder: Path) -> Counter[str]:
    manifest = json.loads((folder / "manifest.json").read_text())
    # Accounts that no directory names are not to be found through the directory.
    found = [account for account in manifest["dids"].values() if account["in_plc"]]
    wanted = sum(account["archivable"] for account in found)
    archive = str(folder / "net" / "archive")
    told = subprocess.run(
        [*PROGRAM, "tally", archive, "--json"], env=ENVIRONMENT, capture_output=True, check=True
    )
    tally = json.loads(told.stdout.splitlines()[-1])
    if tally["repos"] != wanted:
        raise SystemExit(f"wrong result: {tally['repos']} repositories of {wanted}")
    return Counter(repos=wanted, records=tally["records"])


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["polite", "flat-out"])
    parser.add_argument("--accounts", type=int, default=0)
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--rate", type=float, default=400.0)
    arguments = parser.parse_args()
    polite = arguments.kind == "polite"
    accounts = arguments.accounts or (20_000 if polite else 100_000)
    folder = Path(tempfile.mkdtemp(prefix="trawlnet-bench-"))
    me = str(Path(__file__).resolve())
    server = subprocess.Popen(
        [sys.executable, me, "--serve", str(accounts), str(arguments.hosts), str(folder)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout
        plc = json.loads(server.stdout.readline())["plc"]
        manifest = json.loads((folder / "manifest.json").read_text())
        on_host = Counter(account["pds"] for account in manifest["dids"].values())
        print(f"load average {os.getloadavg()[0]:.1f}")
        if polite:
            rps = (max(on_host.values()) - 1) / (accounts / arguments.rate)
            flags = []
        else:
            rps, flags = 1000.0, ["--workers", "64", "--pds-concurrency", "8"]
        wall, cpu, peak = crawl(folder, plc, rps, flags)
        server.send_signal(signal.SIGTERM)
        _, server_cpu, _ = usage_of(server)
        if polite:
            report_polite(folder, rps, wall, cpu)
        done = check(folder)
        print(
            f"{done['repos']} repositories, {done['records']} records in {wall:.1f} s: "
            f"{done['repos'] / wall:.0f} repositories/s; crawl {cpu:.1f} s CPU "
            f"({cpu / done['repos'] * 1e6:.0f} µs each), peak {peak / 1e6:.0f} MB; "
            f"server {server_cpu:.1f} s CPU"
        )
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
