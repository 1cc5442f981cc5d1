"""A crawl of a site for the nursery; where the site is served, the test has written down."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trawlnet.captures.role import CRAWL
from trawlnet.crawlers.web.build import RunRequest, open_crawl, open_scrape
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.plan import engine_limits
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl as run_crawl
from trawlnet.engine.ports import Sink
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.storage.files import is_held


async def crawl(folder: Path) -> None:
    await _crawl(folder, lambda sink: sink)


async def settle_first(folder: Path) -> None:
    """Broken on purpose: pages are settled before their captures are durable."""
    await _crawl(folder, Late)


class Late:
    """A sink that says it has written a batch two batches early: when one reaches the disk, the
    next is settled already."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held: list[Sequence[tuple[Task, Sequence[Any]]]] = []

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        self._held.append(batch)
        if len(self._held) > 2:
            await self._sink.write(self._held.pop(0))


async def _crawl(folder: Path, sink: Callable[[Sink], Sink]) -> None:
    given = json.loads((folder / "given.json").read_text())
    config = WebConfig.model_validate(given["config"])
    clock = SystemClock()
    order = RunRequest(f"run-{os.getpid()}", tuple(given["seeds"]))
    opened = open_crawl(config, folder / "site", clock, CrawlMetrics("web", clock), order)
    async with opened as parts:
        control = Control(config.limits.global_concurrency)
        kept = sink(parts.sink)
        await run_crawl(replace(parts, sink=kept), engine_limits(config), control)
        for _ in range(2):
            await kept.write([])  # What is held back.


async def scrape(folder: Path) -> None:
    """Until the crawl has ended, kills and all, and the spool is empty."""
    given = json.loads((folder / "given.json").read_text())
    config, site, clock = WebConfig.model_validate(given["config"]), folder / "site", SystemClock()
    metrics = CrawlMetrics("web", clock)

    def is_crawling() -> bool:
        return (folder / "kills").exists() or is_held(site / CRAWL.lock)

    order = RunRequest(f"run-{os.getpid()}", is_crawling=is_crawling)
    async with open_scrape(config, site, clock, metrics, order, again=True) as parts:
        control = Control(config.limits.global_concurrency)
        await run_crawl(parts, engine_limits(config), control)


ROLES = {"crawl": crawl, "settle_first": settle_first, "scrape": scrape}
