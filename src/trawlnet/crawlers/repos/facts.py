"""What a crawl has left, in a few numbers: from the archive here, or from Redis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trawlnet.archive.segment import number_of
from trawlnet.crawlers.repos.archived import TABLE
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.store.lmdb_notes import count_notes


async def facts_about(config: ReposConfig, workspace: Path) -> Mapping[str, Any]:
    """The same names wherever they come from."""
    if config.redis_address:
        from trawlnet.store.redis_archive import read_archive_keys  # Needs the extra package.

        return await read_archive_keys(config.redis_address)
    segments = list((workspace / "archive").glob("*.rca"))
    return {
        "total_crawled": count_notes(workspace / "state" / "repos" / "notes", TABLE),
        "bytes_written": sum(path.stat().st_size for path in segments),
        "segment_num": max((number_of(path) or 0 for path in segments), default=0),
    }
