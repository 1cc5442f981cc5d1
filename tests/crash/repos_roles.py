"""The repos crawler for the nursery; the folder has the address of the network to crawl."""

from __future__ import annotations

import json
from pathlib import Path

# All that a crawl imports late, so that each fork has it at once.
import trawlnet.crawlers.repos.build  # noqa: F401
from tests.support.repos.run import run_config
from trawlnet.crawlers.repos.config import ReposConfig


async def crawl(folder: Path) -> None:
    config = ReposConfig(**json.loads((folder / "config.json").read_text()))
    await run_config(config, folder / "net")


ROLES = {"crawl": crawl}
