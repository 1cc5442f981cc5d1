"""Crawls of ids for the nursery: the right one, and one that settles before it publishes."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path

import trawlnet.engine.settle as settling
from trawlnet.crawlers.ids.build import open_parts
from trawlnet.crawlers.ids.config import IdsConfig, limits
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.engine.floor import Done, Floor
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics

BEHIND = 3


async def sound(folder: Path) -> None:
    """Until it is killed, or told to end by a file."""
    config = IdsConfig(**json.loads((folder / "config.json").read_text()))
    clock, control = SystemClock(), Control(config.first_workers)

    async def told() -> None:
        while not (folder / "end").exists():
            await asyncio.sleep(0.02)
        control.drain()

    async with open_parts(config, folder / "w", clock, CrawlMetrics("ids", clock)) as parts:
        watching = asyncio.create_task(told())
        await crawl(parts, limits(config), control)
        await watching


async def settle_first(folder: Path) -> None:
    break_order()
    await sound(folder)


def break_order() -> None:
    """Breaks "settled implies durable": the ledger says done, and the queue is written some batches
    later, so that whoever is killed has lost these."""
    held_back: deque[object] = deque()

    async def swapped(floor: Floor, batch: list[Done]) -> None:
        sink = floor.parts.sink

        class Later:
            async def write(self, written: object) -> None:
                held_back.append(written)

        object.__setattr__(floor.parts, "sink", Later())
        await right(floor, batch)
        object.__setattr__(floor.parts, "sink", sink)
        while len(held_back) > BEHIND:
            await sink.write(held_back.popleft())  # type: ignore[arg-type]

    right = settling.settle_batch
    settling.settle_batch = swapped  # type: ignore[assignment]


ROLES = {"sound": sound, "settle_first": settle_first}
