"""What a viewer costs a crawl of many hosts: its CPU time without and with one, in one run.

    .venv/bin/python bench/dashboard.py [--hosts 3000] [--rounds 6] [--window 10]

One real `web crawl` of a simulated web on loopback, paced so that it does the same work all the
time, and a dashboard beside it. Windows take turns: nobody looks, one viewer is sent events, nobody
looks. The figure is the CPU time of the crawl's process as a share of one core; each window with a
viewer is held against what its tries would have cost in the two windows beside it, so that what
drifts cancels out, and the median over the rounds is what counts: the machine does other things,
too. Then the same with the crawl paused, where telling a viewer is all there is to do: that has
little noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
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
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.support.pages.dashboard_run import Dashboard, dashboard_of
from tests.support.program import Started, started
from trawlnet.net.clock import SystemClock
from trawlnet.observe.lane_table import read_table
from trawlnet.observe.live import LANES, WATCH_SECONDS
from trawlnet.sim.web.world import serve_web

_PAGES = 40  # Of a host.
_LATENCY = 0.25  # Seconds: with the crew below, about a hundred pages a second, all the time.
_CREW = 40
CRAWL = (
    *("--allow-private-hosts", "--user-agent", "Bot/1.0 (+https://a.example)"),
    *("--set", f"limits.global_concurrency={_CREW}", "--set", "limits.req_per_sec=10"),
)
_BEGINS = 3.0  # Seconds until a viewer has been sent everything once.
_REST = 5.0  # Seconds after which a crawl that was paused does nothing any more.


def let_many_connect() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


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


class Window(NamedTuple):
    crawl: float  # Share of one core.
    dashboard: float
    tries: float  # A second.


def looked_at(crawl: Started, site: Dashboard, status: Path, window: float) -> Window:
    def read() -> tuple[float, ...]:
        tries = sum(json.loads(status.read_bytes())["attempts"].values())
        return cpu_seconds(crawl.pid), cpu_seconds(site.program.pid), tries, time.monotonic()

    before = read()
    time.sleep(window)
    *spent, seconds = (late - early for early, late in zip(before, read(), strict=True))
    return Window(*(one / seconds for one in spent))


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
    alone: list[Window] = field(default_factory=list)  # One more than rounds.
    watched: list[Window] = field(default_factory=list)

    @property
    def more(self) -> list[float]:
        """What each window with a viewer took beyond what its tries take without."""
        return [
            seen.crawl - _expected(pair, seen.tries)
            for seen, pair in zip(self.watched, pairwise(self.alone), strict=True)
        ]


def _expected(alone: Sequence[Window], tries: float) -> float:
    share = statistics.mean(one.crawl for one in alone)
    usual = statistics.mean(one.tries for one in alone)
    return share * tries / usual if usual >= 1.0 else share


def measure(crawl: Started, workspace: Path, rounds: int, window: float) -> Measured:
    made, state = Measured(), workspace / "state" / "web"
    with dashboard_of(workspace) as site:

        def look() -> Window:
            return looked_at(crawl, site, state / "status.json", window)

        made.alone.append(look())
        for _ in range(rounds):
            with viewer(site):
                time.sleep(_BEGINS)
                made.watched.append(look())
                lanes = len(read_table((state / LANES).read_bytes()).rows)
            time.sleep(WATCH_SECONDS + 1.0)  # So long it believes that somebody looks.
            made.alone.append(look())
            before, seen, after = *made.alone[-2:-1], made.watched[-1], made.alone[-1]
            shares = " ".join(f"{one.crawl:.2%} at {one.tries:.0f}/s" for one in (before, after))
            print(
                f"  {lanes} lanes: alone {shares}; watched {seen.crawl:.2%} at {seen.tries:.0f}/s"
            )
            sys.stdout.flush()
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--window", type=float, default=10.0)
    given = parser.parse_args()
    let_many_connect()
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
        command = ("web", "crawl", "-w", workspace, *CRAWL)
        with started(*command, folder=folder / "talk") as crawl:
            crawl.says("running 30s")
            crawl.says("running 1m00s")
            report("a crawl that is busy", measure(crawl, workspace, given.rounds, given.window))
            (workspace / "pause.web").touch()
            time.sleep(_REST)
            paused = measure(crawl, workspace, given.rounds, given.window)
            report("the same crawl, paused: only the telling is left to measure", paused)
        world.kill()


def report(title: str, made: Measured) -> None:
    def middle(row: Sequence[Window], name: str) -> float:
        return statistics.median(getattr(one, name) for one in row)

    more = made.more
    print(title)
    print(f"  nobody looks: {middle(made.alone, 'crawl'):.2%} of a core")
    print(f"    one viewer: {middle(made.watched, 'crawl'):.2%}")
    spread = f"{min(more):+.2%} to {max(more):+.2%}"
    print(f"          more: {statistics.median(more):+.2%}, from {spread} in {len(more)} rounds")
    own, idle = middle(made.watched, "dashboard"), middle(made.alone, "dashboard")
    print(f" the dashboard: {own:.2%} with its viewer, {idle:.2%} without", flush=True)


if __name__ == "__main__":
    main()
