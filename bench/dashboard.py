"""What a viewer costs a crawl of many hosts: its CPU time without and with one, in one run.

    .venv/bin/python bench/dashboard.py [--hosts 3000] [--rounds 6] [--window 10]

One real `web crawl` of a simulated web on loopback, paced so that it does the same work all the
time, and a dashboard beside it. Windows take turns: nobody looks, one viewer is sent events, nobody
looks. The figure is the CPU time of the crawl's process as a share of one core; each window with a
viewer is held against the mean of the two beside it, so that what drifts cancels out, and the
median over the rounds is what counts: the machine does other things, too. Then the same with the
crawl paused, where telling a viewer is all there is to do: that has little noise.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.dashboard_run import Dashboard, dashboard_of
from tests.program import Started, started

from trawlnet.net.clock import SystemClock
from trawlnet.observe.lane_table import read_table
from trawlnet.observe.live import LANES, WATCH_SECONDS
from trawlnet.sim.web.world import serve_web

_PAGES = 40  # Of a host.
_LATENCY = 0.25  # Seconds: with the crew below, about a hundred pages a second, all the time.
_CREW = 40
_BEGINS = 3.0  # Seconds until a viewer has been sent everything once.
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
    """Of all its threads, as the scheduler counts them: finer than the ticks of `stat`."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def shares(pids: Sequence[int], window: float) -> list[float]:
    """Of one core, over a window, of each process."""
    begun, before = time.monotonic(), [cpu_seconds(pid) for pid in pids]
    time.sleep(window)
    after, seconds = [cpu_seconds(pid) for pid in pids], time.monotonic() - begun
    return [(late - early) / seconds for early, late in zip(before, after, strict=True)]


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


@dataclass
class Measured:
    alone: list[float] = field(default_factory=list)  # One more than rounds.
    watched: list[float] = field(default_factory=list)
    dashboard: list[float] = field(default_factory=list)  # Its own process, with the viewer.
    idle: list[float] = field(default_factory=list)  # The same without.


def measure(crawl: Started, workspace: Path, rounds: int, window: float) -> Measured:
    made = Measured()
    table = workspace / "state" / "web" / LANES
    with dashboard_of(workspace) as site:
        pids = (crawl.pid, site.program.pid)

        def unwatched() -> None:
            ours, theirs = shares(pids, window)
            made.alone.append(ours)
            made.idle.append(theirs)

        unwatched()
        for _ in range(rounds):
            with viewer(site):
                time.sleep(_BEGINS)
                ours, theirs = shares(pids, window)
                lanes = len(read_table(table.read_bytes()).rows)
            made.watched.append(ours)
            made.dashboard.append(theirs)
            time.sleep(WATCH_SECONDS + 1.0)  # So long it believes that somebody looks.
            unwatched()
            print(
                f"  {lanes} lanes: alone {made.alone[-2]:.2%}, watched {ours:.2%}, "
                f"alone {made.alone[-1]:.2%}; the dashboard {theirs:.2%}",
                flush=True,
            )
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--window", type=float, default=10.0)
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


def report(title: str, made: Measured) -> None:
    beside = [statistics.mean(pair) for pair in pairwise(made.alone)]
    more = [one - none for one, none in zip(made.watched, beside, strict=True)]
    print(title)
    print(f"  nobody looks: {statistics.median(made.alone):.2%} of a core")
    print(f"    one viewer: {statistics.median(made.watched):.2%}")
    spread = f"{min(more):+.2%} to {max(more):+.2%}"
    print(f"          more: {statistics.median(more):+.2%}, from {spread} in {len(more)} rounds")
    idle = statistics.median(made.idle)
    print(f" the dashboard: {statistics.median(made.dashboard):.2%}; without a viewer {idle:.2%}")


if __name__ == "__main__":
    main()
