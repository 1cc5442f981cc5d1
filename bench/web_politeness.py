"""How much of the ideal a polite crawl of many hosts reaches, and whether it ever asks too soon.

`python bench/web_politeness.py [--hosts 200] [--pages 20]`: each host allows a request a second,
from the end of one answer to the next request, and takes 50 ms to answer. The ideal is
hosts / (delay + latency). The server runs in a process of its own; its log is the judge.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import uvloop
from aiohttp import web

from trawlnet.crawlers.web.build import RunRequest, open_crawl
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.plan import engine_limits
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.serve import Call, bind_hosts, loopback_hosts, serve

LATENCY = 0.05  # Seconds.
DELAY = 1.0  # Seconds.


async def serve_hosts(hosts: int, pages: int, log: Path) -> None:
    async def answer(call: Call) -> web.StreamResponse:
        if call.request.path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private/\n")
        links = "".join(f'<a href="/page/{n}">{n}</a>\n' for n in range(1, pages))
        return web.Response(text=f"<html><body>{links}</body></html>", content_type="text/html")

    sockets = bind_hosts(loopback_hosts(hosts))
    served = await serve(answer, sockets, clock=SystemClock(), latency=LATENCY, log=log)
    print(json.dumps({"port": served.port}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await served.close()


async def crawl_hosts(folder: Path, hosts: int, port: int) -> None:
    names = loopback_hosts(hosts)
    config = WebConfig.model_validate(
        {
            "allow_private_hosts": True,
            "limits": {"req_per_sec": 1.0 / DELAY, "global_concurrency": 200},
            "caps": {"max_depth": None},
            "trajectory": {"enabled": False},
        }
    )
    clock = SystemClock()
    order = RunRequest("bench", tuple(f"http://{name}:{port}/" for name in names))
    opened = open_crawl(config, folder / "site", clock, CrawlMetrics("web", clock), order)
    async with opened as parts:
        await crawl(parts, engine_limits(config), Control(config.limits.global_concurrency))


def judge(log: Path, hosts: int) -> dict[str, float]:
    """From the server's log: the share of the ideal, and the shortest gap."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in log.read_text().splitlines():
        row = json.loads(line)
        spans[row["host"]].append((row["time"], row["end"]))
    assert len(spans) == hosts
    for one in spans.values():
        one.sort()
    gaps = [later[0] - earlier[1] for one in spans.values() for earlier, later in pairwise(one)]
    first = min(one[0][0] for one in spans.values())
    last = max(one[-1][1] for one in spans.values())
    requests = sum(len(one) for one in spans.values())
    busy = sum(one[-1][0] - one[0][0] for one in spans.values())
    ideal = (requests - hosts) * (DELAY + LATENCY)
    latency = sum(end - begin for one in spans.values() for begin, end in one) / requests
    return {
        "requests": requests,
        "seconds": round(last - first, 2),
        "requests_per_second": round(requests / (last - first), 1),
        # Of each host, from its first request to its last.
        "share_of_ideal": round(ideal / busy, 4),
        # Of all, from the very first request to the very last: with the start and the end.
        "share_with_ends": round(requests * (DELAY + LATENCY) / hosts / (last - first), 4),
        "mean_latency_s": round(latency, 4),
        "shortest_gap_s": round(min(gaps), 4),
        "median_gap_s": round(sorted(gaps)[len(gaps) // 2], 4),
        "violations": sum(gap < DELAY for gap in gaps),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hosts", type=int, default=200)
    options.add_argument("--pages", type=int, default=20)
    options.add_argument("--serve", type=Path)
    given = options.parse_args()
    if given.serve:
        asyncio.run(serve_hosts(given.hosts, given.pages, given.serve))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "requests.jsonl"
        command = [sys.executable, __file__, "--serve", log]
        command += ["--hosts", str(given.hosts), "--pages", str(given.pages)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdin and server.stdout
        port = json.loads(server.stdout.readline())["port"]
        began = time.process_time()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(crawl_hosts(folder, given.hosts, port))
        spent = time.process_time() - began
        server.stdin.close()
        server.wait()
        row = judge(log, given.hosts) | {"cpu_s": round(spent, 2)}
        row["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps(row))


if __name__ == "__main__":
    main()
