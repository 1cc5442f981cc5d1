"""What a viewer costs a crawl of many hosts: its CPU time without and with one, in one run.

    .venv/bin/python bench/dashboard.py [--hosts 3000] [--rounds 4] [--window 8]

One real `web crawl` of a simulated web on loopback, paced so that it does the same work all the
time. Windows take turns: nobody looks; a dashboard runs and nobody looks at it; one viewer is sent
events. The figure is the CPU time of the crawl's process as a share of one core, and the median
over the rounds is what counts: the machine does other things, too. Then the same with the crawl
paused, where telling a viewer is all there is to do: that has no noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.dashboard_run import Dashboard, dashboard_of
from tests.program import Started, started

from trawlnet.net.clock import SystemClock
from trawlnet.sim.web.world import serve_web

_TICK = os.sysconf("SC_CLK_TCK")
_PAGES = 40  # Of a host.
_LATENCY = 0.25  # Seconds: with the crew below, about a hundred pages a second, all the time.
_CREW = 40
_REST = 5.0  # Seconds after which a crawl that was paused does nothing any more.


def serve(hosts: int, folder: Path, ready: Connection) -> None:
    async def run() -> None:
        world = await serve_web(
            1, manifest=folder / "manifest.json", clock=SystemClock(), hosts=hosts, pages=_PAGES,
            latency=_LATENCY, digests=False,
        )  # fmt: skip
        ready.send((world.site.port, list(world.site.hosts)))
        await asyncio.Event().wait()

    asyncio.run(run())


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def share(crawl: Started, window: float) -> float:
    """Of one core, over a window."""
    begun, before = time.monotonic(), cpu_seconds(crawl.pid)
    time.sleep(window)
    return (cpu_seconds(crawl.pid) - before) / (time.monotonic() - begun)


@contextmanager
def viewer(site: Dashboard) -> Iterator[multiprocessing.Process]:
    process = multiprocessing.Process(target=_view, args=(site.url,), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _view(url: str) -> None:
    with urllib.request.urlopen(f"{url}/events") as stream:
        for _ in stream:
            pass


def watched_lanes(workspace: Path) -> int:
    live = json.loads((workspace / "state" / "web" / "live.json").read_bytes())
    return len(live["lane_table"])


def measure(crawl: Started, workspace: Path, rounds: int, window: float) -> dict[str, list[float]]:
    shares: dict[str, list[float]] = {"nobody": [], "no viewer": [], "one viewer": []}
    settle = 11.0  # A crawl believes for ten seconds that somebody looks.
    for _ in range(rounds):
        shares["nobody"].append(share(crawl, window))
        with dashboard_of(workspace) as site:
            shares["no viewer"].append(share(crawl, window))
            with viewer(site):
                time.sleep(3.0)
                shares["one viewer"].append(share(crawl, window))
                lanes = watched_lanes(workspace)
        time.sleep(settle)
        print(f"  {lanes} lanes:", *(f"{name} {row[-1]:.2%}" for name, row in shares.items()))
    return shares


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--window", type=float, default=8.0)
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ours, theirs = multiprocessing.Pipe()
        world = multiprocessing.Process(
            target=serve, args=(given.hosts, folder, theirs), daemon=True
        )
        world.start()
        port, hosts = ours.recv()
        (folder / "seeds.txt").write_text("".join(f"http://{host}:{port}/\n" for host in hosts))
        workspace = folder / "net"
        workspace.mkdir()
        (folder / "seeds.txt").rename(workspace / "seeds.txt")
        flags = ("--allow-private-hosts", "--user-agent", "Bot/1.0 (+https://a.example)")
        pace = (f"limits.global_concurrency={_CREW}", "limits.req_per_sec=10")
        sets = [part for one in pace for part in ("--set", one)]
        with started(
            "web", "crawl", "-w", workspace, *flags, *sets, folder=folder / "talk"
        ) as crawl:
            crawl.says("running 30s")
            crawl.says("running 1m00s")
            busy = measure(crawl, workspace, given.rounds, given.window)
            print(crawl.err.splitlines()[-1])
            (workspace / "pause.web").touch()
            time.sleep(_REST)
            paused = measure(crawl, workspace, given.rounds, given.window)
        world.kill()
    report("a crawl that is busy", busy)
    report("the same crawl, paused: nothing but the telling is left to measure", paused)


def report(title: str, shares: dict[str, list[float]]) -> None:
    print(title)
    nobody = shares["nobody"]
    for name, row in shares.items():
        more = statistics.median(one - none for one, none in zip(row, nobody, strict=True))
        print(f"  {name:>10}: {statistics.median(row):.2%} of a core ({more:+.2%})")


if __name__ == "__main__":
    main()
