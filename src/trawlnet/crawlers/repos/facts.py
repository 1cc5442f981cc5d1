"""What a crawl has left, in a few numbers: from the archive here, or from Redis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trawlnet.archive.reader import number_of
from trawlnet.crawlers.repos.catalogue import count_archived
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.loading import load


async def facts_about(config: ReposConfig, workspace: Path) -> Mapping[str, Any]:
    """The same names wherever they come from."""
    if config.redis_address:
        read = load("trawlnet.stores.redis.archive:read_archive_keys")
        facts: Mapping[str, Any] = await read(config.redis_address)
        return facts
    archive = workspace / "archive"
    segments = list(archive.glob("*.rca"))
    return {
        "total_crawled": count_archived(workspace / "state" / "repos" / "notes", archive),
        "bytes_written": sum(path.stat().st_size for path in segments),
        "segment_num": max((number_of(path) or 0 for path in segments), default=0),
    }
