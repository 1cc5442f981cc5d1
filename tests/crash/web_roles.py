"""A crawl of a site for the nursery; where the site is served, the test has written down."""

from __future__ import annotations

import json
import os
from pathlib import Path

from trawlnet.crawlers.web.build import Order, open_crawl
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.plan import engine_limits
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl as run_crawl
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics import Metrics


async def crawl(folder: Path) -> None:
    given = json.loads((folder / "given.json").read_text())
    config = WebConfig.model_validate(given["config"])
    clock = SystemClock()
    order = Order(f"run-{os.getpid()}", tuple(given["seeds"]))
    opened = open_crawl(config, folder / "site", clock, Metrics("web", clock), order)
    async with opened as parts:
        control = Control(config.limits.global_concurrency)
        await run_crawl(parts, engine_limits(config), control)


ROLES = {"crawl": crawl}
