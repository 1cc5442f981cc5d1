"""The spool between crawl and scrape: pages that the one found and the other fetches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trawlnet.captures.discovery import BOOKMARK, NAME
from trawlnet.captures.line import CaptureLine
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.queues.queue import Message, QueueOptions
from trawlnet.queues.spool import Spool
from trawlnet.queues.spool_files import SpoolDirectory, load_bookmark

_MB = 1 << 20
_GB = 1 << 30


def discovery_spool(config: WebConfig, workspace: Path) -> Spool:
    options = spool_options(config, workspace)
    return Spool(workspace / config.spool.discoveries_dir, NAME, options)


def spool_without_bound(config: WebConfig, workspace: Path) -> Spool:
    """The spool without its size limit, for `retry`: it holds the locks of crawl and scrape, and
    would otherwise wait for a scrape that cannot start."""
    options = replace(spool_options(config, workspace), backlog_bytes=None)
    return Spool(workspace / config.spool.discoveries_dir, NAME, options)


def spool_options(config: WebConfig, workspace: Path) -> QueueOptions:
    spool = config.spool
    return QueueOptions(
        backlog_bytes=int(min(spool.backpressure_limit_gb, spool.max_backlog_gb) * _GB),
        # Short: a terminal's line is cut.
        when_full="run trawlnet web scrape beside this crawl, "
        "or raise spool.max_backlog_gb and spool.backpressure_limit_gb",
        segment_bytes=int(spool.rotate_every_mb * _MB),
        keep=True,
        bookmark=workspace / BOOKMARK,
    )


def unread_bytes(config: WebConfig, workspace: Path) -> int:
    """The unread bytes of the discovery spool; the crawl waits when there are too many."""
    files = SpoolDirectory(workspace / config.spool.discoveries_dir, NAME)
    return files.backlog(load_bookmark(workspace / BOOKMARK, files))


async def ask_again(config: WebConfig, workspace: Path, lines: Sequence[CaptureLine]) -> None:
    """Put pages into the discovery spool, where the next scrape finds them."""
    spool = spool_without_bound(config, workspace)
    try:
        await spool.publish([_discovery(line) for line in lines])
    finally:
        await spool.close()


def _discovery(line: CaptureLine) -> Message:
    return {
        "url": line.url,
        "page_type": line.page_type,
        "depth": line.depth,
        "referrer": line.referrer,
        "metadata": {"retry_of": "damaged"},
    }
