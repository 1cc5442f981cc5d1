"""What the crash tests of following run in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

from trawlnet.crawlers.repos.build import open_parts
from trawlnet.crawlers.repos.config import ReposConfig, limits
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import crawl
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics


async def follow(folder: Path) -> None:
    """Backfill and live, until it is killed."""
    config = ReposConfig(**json.loads((folder / "config.json").read_text()), follow=True)
    clock = SystemClock()
    metrics = CrawlMetrics("repos", clock)
    async with open_parts(config, folder / "net", clock, metrics) as parts:
        await crawl(parts, limits(config), Control(config.workers))


ROLES = {"follow": follow}
