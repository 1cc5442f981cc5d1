"""A crawl of one site, durable and with robots.txt: `trawlnet web crawl` beside its peers.

    .venv/bin/python bench/web.py [--pages 5000] [--rounds 5] [--only ours,...] [--no-profile]

nginx serves the same generated tree to all, from a core of its own; each crawler has the other
one, 32 requests under way, no delay and no gzip. Each leaves the bodies in files by sha256, a
record for each page and one for each link. Ours is the command as people run it, synced before it
forgets; `scrapy_tuned` is as fast as we can make it without syncing anything, `scrapy_durable` is
the same with what Scrapy has for a queue that survives, `crawlee_sqlite` keeps its own. Runs are
interleaved. nginx logs every run alike, and no run counts whose log is not each page once, none
that robots.txt denies. CPU seconds are of the crawler with its start, not of nginx. Peers live in
.bench-venv, which is made when it is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "bench")]

from web_profile import shares
from web_site import Site, made_site, nginx

VENV = ROOT / ".bench-venv"
PEER_PACKAGES = ("scrapy", "selectolax", "crawlee[parsel,sql-sqlite]")
PEERS = ROOT / "bench" / "web_peers"
OURS = "trawlnet"


@dataclass(frozen=True)
class Peer:
    needs: str
    script: str
    target: float  # How many times its pages per CPU second ours is to reach.
    flags: tuple[str, ...] = ()


PEERS_BY_NAME = {
    "scrapy_tuned": Peer("scrapy", "scrapy_tuned.py", 4.0),
    "scrapy_durable": Peer("scrapy", "scrapy_tuned.py", 4.0, ("durable",)),
    "scrapy_usual": Peer("scrapy", "scrapy_usual.py", 8.0),
    "crawlee_sqlite": Peer("crawlee", "crawlee_sqlite.py", 8.0),
}
CRAWLER_CORE, NGINX_CORE = 0, 1
MB = 1 << 20
LONGEST = 900.0  # Seconds of one crawl.


@dataclass(frozen=True)
class Run:
    name: str
    pages: int
    cpu_s: float
    wall_s: float
    rss_mb: float
    anonymous_mb: float  # Without files that are mapped, such as a database's; as sampled.
    disk_mb: float
    inodes: int
    faults: tuple[str, ...]

    @property
    def pages_per_cpu_s(self) -> float:
        return self.pages / self.cpu_s


def command_of(name: str, seed: str, folder: Path) -> list[str]:
    if name != OURS:
        peer = PEERS_BY_NAME[name]
        python, script = str(VENV / "bin" / "python"), str(PEERS / peer.script)
        return [python, script, seed, str(folder), *peer.flags]
    command = [sys.executable, "-m", "trawlnet", "web", "crawl", "-w", str(folder), seed]
    command += ["--allow-private-hosts", "--max-depth", "1000", "--req-per-sec", "0"]
    return [*command, "--concurrency", "32", "--set", "limits.per_host_concurrency=32"]


def run(name: str, site: Site, place: Path) -> Run:
    folder = place / "out"
    folder.mkdir(parents=True, exist_ok=True)
    with nginx(site, place, NGINX_CORE) as (origin, hits):
        command = ["taskset", "-c", str(CRAWLER_CORE)]
        command += command_of(name, f"{origin}/p/000000.html", folder)
        began = time.monotonic()
        with (place / "said").open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=environment())
            used, anonymous = _waited(process)
        wall = time.monotonic() - began
    faults = hits.faults(site)
    if process.returncode:
        faults.append(f"exit code {process.returncode}: {(place / 'said').read_text()[-500:]}")
    pages = sum(path in site.paths for path in hits.seen)
    cpu = used.ru_utime + used.ru_stime
    size, inodes = _footprint(folder)
    rss = used.ru_maxrss / 1024
    return Run(name, pages, cpu, wall, rss, anonymous, size / MB, inodes, tuple(faults))


def _waited(process: subprocess.Popen[bytes]) -> tuple[Any, float]:
    """With what it used, which Popen does not tell, and its peak of anonymous memory in MB."""
    end, most = time.monotonic() + LONGEST, 0.0
    while True:
        most = max(most, _anonymous_mb(process.pid))
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return used, most
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.02)


def _anonymous_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(found[0]) / 1024 if found else 0.0


def environment() -> dict[str, str]:
    """With compiled modules for all: pip compiles those of the peers when it installs them."""
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}


def _footprint(folder: Path) -> tuple[int, int]:
    """Bytes allocated on disk, and inodes."""
    kept = [path.lstat() for path in folder.rglob("*")]
    return sum(one.st_blocks * 512 for one in kept), len(kept)


def present(only: Sequence[str]) -> list[str]:
    """The contestants; a peer that cannot be installed is left out aloud."""
    names = [OURS, *PEERS_BY_NAME]
    if only:
        names = [name for name in names if name in only]
    if set(names) - {OURS} and not (VENV / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        for package in PEER_PACKAGES:
            subprocess.run([str(VENV / "bin" / "pip"), "install", "-q", package], check=False)
    for name in set(names) - {OURS}:
        needed = PEERS_BY_NAME[name].needs
        if not _imports(needed):
            print(f"!!! SKIPPED {name}: {needed} could not be installed in {VENV}")
            names.remove(name)
    return names


def _imports(package: str) -> bool:
    command = [str(VENV / "bin" / "python"), "-c", f"import {package}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def table(runs: dict[str, list[Run]]) -> str:
    head = f"{'':16}{'pages':>7}{'CPU s':>8}{'pages/CPU s':>13}{'min-max':>14}{'wall s':>8}"
    lines = [head + f"{'RSS MB':>8}{'disk MB':>9}{'inodes':>8}{'ours is':>9}{'target':>8}"]
    ours = _speed(runs[OURS]) if OURS in runs else 0.0
    for name, those in runs.items():
        speeds = [one.pages_per_cpu_s for one in those]
        spread = f"{min(speeds):.0f}-{max(speeds):.0f}"
        row = f"{name:16}{those[0].pages:7}{_middle(those, 'cpu_s'):8.2f}{_speed(those):13.1f}"
        row += f"{spread:>14}{_middle(those, 'wall_s'):8.2f}{_middle(those, 'rss_mb'):8.1f}"
        row += f"{_middle(those, 'disk_mb'):9.1f}{those[0].inodes:8}"
        if name in PEERS_BY_NAME and ours:
            row += f"{ours / _speed(those):8.1f}x{PEERS_BY_NAME[name].target:7.0f}x"
        lines.append(row)
    return "\n".join(lines)


def _middle(runs: list[Run], field: str) -> float:
    return median(float(getattr(one, field)) for one in runs)


def _speed(runs: list[Run]) -> float:
    return median(one.pages_per_cpu_s for one in runs)


def plotted(runs: dict[str, list[Run]], file: Path) -> None:
    """In a process of its own: matplotlib is an extra, and large."""
    rows = {name: [_speed(those), _middle(those, "rss_mb")] for name, those in runs.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(PEERS / "plot.py"), str(file)]
    drawn = subprocess.run(command, input=json.dumps(rows).encode(), check=False)
    print(f"plot: {file}" if drawn.returncode == 0 else "no plot: pip install 'trawlnet[plot]'")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--pages", type=int, default=5000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", default="", help="names, with commas")
    options.add_argument("--plot", type=Path, default=ROOT / "docs" / "img" / "web-bench.png")
    options.add_argument("--no-profile", action="store_true")
    given = options.parse_args()
    compiled = [sys.executable, "-m", "compileall", "-q", str(ROOT / "src")]
    subprocess.run(compiled, check=True, env=environment())
    names = present([name for name in given.only.split(",") if name])
    runs: dict[str, list[Run]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="web-bench-") as name:
        folder = Path(name)
        site = made_site(folder / "site", given.pages, given.seed)
        load = os.getloadavg()[0]
        print(
            f"site {site.digest}: {given.pages} pages; load {load:.1f}; {platform.python_version()}"
        )
        for turn in range(given.rounds):
            for contestant in names:
                one = run(contestant, site, folder / f"{contestant}-{turn}")
                print(json.dumps(asdict(one)), flush=True)
                if one.faults:
                    raise SystemExit(f"{contestant} is not correct, so its speed is of no interest")
                runs[contestant].append(one)
        print(f"\n{table(runs)}\n")
        if len(names) > 1:
            plotted(runs, given.plot)
        if OURS in names and not given.no_profile:
            print(_profile(site, folder / "profile"))


def _profile(site: Site, place: Path) -> str:
    (place / "out").mkdir(parents=True)
    with nginx(site, place, NGINX_CORE) as (origin, hits):
        command = command_of(OURS, f"{origin}/p/000000.html", place / "out")
        told = shares(command, place / "stacks", CRAWLER_CORE, environment())
    faults = hits.faults(site)
    return f"no profile: {', '.join(faults)}" if faults else told


if __name__ == "__main__":
    main()
