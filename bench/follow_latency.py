"""How long a commit takes from the firehose to disk, at a steady rate; and the same, unhurried.

    .venv/bin/python bench/follow_latency.py [--rate 1000] [--seconds 20] [--accounts 200]

A simulated network is crawled and followed by the real command (`repos crawl --follow`). Commits
are made beforehand, then told at the rate by the relay's firehose. A client of `repos serve` sees
each of them: serve reads the log of events, in which there is only what is durable, so that the
time from the relay to the client is an upper bound. The peer is the same path at 20 commits per
second, before and after. The world, the follower, the server and the client share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

import websockets

from record import record
from trawlnet.sim.atproto.accounts import AccountStatus
from trawlnet.sim.atproto.live.event_log import LoggedEvent
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto

CALM = 20  # Commits per second of the peer.
STEP = 0.01  # Seconds between two of the relay's sends.
PATIENCE = 120.0
RATES = ("--default-pds-rps", "500", "--small-pds-rps", "500", "--large-pds-rps", "500")


class Followed:
    def __init__(self, world: AtprotoWorld, folder: Path, stack: ExitStack) -> None:
        self._world = world
        self._folder = folder
        self._stack = stack
        self.sent: dict[tuple[str, str], float] = {}
        self.seen: dict[tuple[str, str], float] = {}

    def start(self, *words: str) -> subprocess.Popen[str]:
        log = self._stack.enter_context((self._folder / f"{words[1]}.log").open("w"))
        process = subprocess.Popen(
            [sys.executable, "-m", "trawlnet", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return process

    async def joined(self, workspace: Path) -> None:
        """Until everything is archived, and the firehose is read."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            found = await asyncio.to_thread(self._status, workspace)
            if found.get("open") == 0 and any(
                one["connected"] for one in found.get("live", {}).get("upstreams", {}).values()
            ):
                return
        raise SystemExit("the crawl did not come to rest")

    def _status(self, workspace: Path) -> dict[str, Any]:
        command = [sys.executable, "-m", "trawlnet", "repos", "status", "-w", str(workspace)]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, env=env)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {}

    async def listen(self, url: str) -> None:
        async with websockets.connect(url, max_size=None) as client:
            async for message in client:
                event = json.loads(message)
                if event["kind"] == "commit":
                    key = event["did"], event["commit"]["rev"]
                    self.seen.setdefault(key, time.monotonic())

    async def made(self, count: int) -> list[LoggedEvent]:
        """Commits that the relay has not told of yet."""
        relay, events = self._world.relay_stream, list[LoggedEvent]()
        heard = relay._hear
        population = self._world.population
        everybody = [population.account(index) for index in range(len(population))]
        writers = [one for one in everybody if one.status is AccountStatus.ACTIVE]
        logs = [log for log in self._world.life.logs if heard in log.listeners]
        for log in logs:
            log.listeners[log.listeners.index(heard)] = events.append
        for number in range(count):
            self._world.life.write(writers[number % len(writers)], 1)
            if number % 20 == 0:
                await asyncio.sleep(0)
        for log in logs:
            log.listeners[log.listeners.index(events.append)] = heard
        return events

    async def told(self, events: Sequence[LoggedEvent], rate: float) -> list[float]:
        """Seconds until each was at the client."""
        begun = time.monotonic()
        at = 0
        while at < len(events):
            until = min(len(events), int((time.monotonic() - begun) * rate) + 1)
            for event in events[at:until]:
                self.sent[event.did, event.payload["rev"]] = time.monotonic()
                self._world.relay_stream.log.add(event.did, event.kind, event.payload)
            at = until
            await asyncio.sleep(STEP)
        took = time.monotonic() - begun
        keys = [(event.did, event.payload["rev"]) for event in events]
        deadline = time.monotonic() + PATIENCE
        while not self.seen.keys() >= set(keys):
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(set(keys) - self.seen.keys())} commits never came")
            await asyncio.sleep(0.1)
        found = [self.seen[key] - self.sent[key] for key in keys]
        cuts = quantiles(found, n=100)
        print(
            f"{len(events)} commits at {len(events) / took:,.0f}/s: p50 {cuts[49] * 1e3:.0f} ms,"
            f" p99 {cuts[98] * 1e3:.0f} ms, longest {max(found) * 1e3:.0f} ms"
        )
        return found


async def measured(args: argparse.Namespace) -> None:
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder, workspace = Path(name), Path(name) / "net"
        world = await serve_atproto(5, accounts=args.accounts, hosts=3, habits=())
        followed = Followed(world, folder, stack)
        where = ("-w", str(workspace), "--allow-private-hosts", "--plc-url", world.plc)
        follow = ("--relay", world.relay, "--follow", "--live-tables", "off", "--plc-rps", "1000")
        followed.start("repos", "crawl", *where, *follow, *RATES)
        await followed.joined(workspace)
        serving = followed.start("repos", "serve", "-w", str(workspace), "--port", "0", "--json")
        assert serving.stdout is not None
        url = json.loads(await asyncio.to_thread(serving.stdout.readline))["url"]
        listening = asyncio.create_task(followed.listen(url))
        await asyncio.sleep(2.0)
        calm = await followed.told(await followed.made(CALM * 5), CALM)
        busy = await followed.told(await followed.made(args.rate * args.seconds), args.rate)
        calm += await followed.told(await followed.made(CALM * 5), CALM)
        listening.cancel()
        p99 = {word: quantiles(found, n=100)[98] for word, found in (("b", busy), ("c", calm))}
        print(f"p99 at {args.rate}/s: {p99['b']:.3f} s, at {CALM}/s: {p99['c']:.3f} s")
        record("follow_latency", {f"p99 at {args.rate}/s / at {CALM}/s": p99["b"] / p99["c"]})
        stack.close()
        await world.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--accounts", type=int, default=200)
    asyncio.run(measured(parser.parse_args()))


if __name__ == "__main__":
    main()
