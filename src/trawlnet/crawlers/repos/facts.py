"""What a crawl has left, in a few numbers: from the archive here, or from Redis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import lmdb

from trawlnet.archive.segment import number_of
from trawlnet.crawlers.repos.config import ReposConfig


async def facts_about(config: ReposConfig, workspace: Path) -> Mapping[str, int]:
    """The same names wherever they come from."""
    if config.redis_address:
        from trawlnet.crawlers.repos.redis_keys import redis_keys  # Needs the extra package.

        keys = redis_keys(config.redis_address, lambda: 0)
        try:
            return await keys.read()
        finally:
            await keys.close()
    return _of_archive(workspace / "archive", workspace / "state" / "repos" / "notes")


def _of_archive(archive: Path, notes: Path) -> Mapping[str, int]:
    segments = list(archive.glob("*.rca"))
    return {
        "total_crawled": _noted(notes),
        "bytes_written": sum(path.stat().st_size for path in segments),
        "segment_num": max((number_of(path) or 0 for path in segments), default=0),
    }


def _noted(notes: Path) -> int:
    """Repositories in the archive, as of when they were last counted."""
    if not (notes / "data.mdb").exists():
        return 0
    try:
        with lmdb.open(str(notes), readonly=True, max_dbs=8) as environment:
            revs = environment.open_db(b"revs", create=False)
            with environment.begin() as txn:
                return int(txn.stat(revs)["entries"])
    except lmdb.Error:
        return 0
