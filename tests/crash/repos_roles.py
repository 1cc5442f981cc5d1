"""The repos crawler for the nursery; the folder has the address of the network to crawl."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

# All that a crawl imports late, so that each fork has it at once.
import trawlnet.crawlers.repos.build  # noqa: F401
from repos_run import run_config
from trawlnet.crawlers.repos.config import ReposConfig


async def crawl(folder: Path) -> None:
    config = ReposConfig(**json.loads((folder / "config.json").read_text()))
    await run_config(config, folder / "net")


ROLES = {"crawl": crawl}
