"""`trawlnet repos`: every ATProto repository of every PDS, archived."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from trawlnet.archive.reader import number_of
from trawlnet.cli.crawl.crawler import Crawler, CrawlPlan, RunnableCrawler
from trawlnet.cli.crawl.redis_state import erase, holder_in, shown_keys
from trawlnet.crawlers.repos.catalogue import count_archived
from trawlnet.crawlers.repos.config import ReposConfig, limits, manners
from trawlnet.crawlers.repos.ledger import open_ledger
from trawlnet.crawlers.repos.work import did_of
from trawlnet.engine.crawl import Parts
from trawlnet.engine.ports import Clock
from trawlnet.loading import load
from trawlnet.observe.alerts.shapes import Webhook
from trawlnet.observe.metrics.crawl import CrawlMetrics


async def facts_about(config: ReposConfig, workspace: Path) -> Mapping[str, Any]:
    """The same names wherever they come from."""
    if config.redis_address:
        read = load("trawlnet.stores.redis.archive:read_archive_keys")
        facts: Mapping[str, Any] = await read(config.redis_address)
        return facts
    archive = workspace / "archive"
    segments = list(archive.glob("*.rca"))
    look = load("trawlnet.crawlers.repos.following.figures.live_row:live_at_rest")
    live = look(workspace / "state" / "repos", time.time())
    return {
        "total_crawled": count_archived(workspace / "state" / "repos" / "notes", archive),
        "bytes_written": sum(path.stat().st_size for path in segments),
        "segment_num": max((number_of(path) or 0 for path in segments), default=0),
        **({} if live is None else {"live": live}),
    }


def _plan(config: ReposConfig) -> CrawlPlan:
    return CrawlPlan(
        config.workers,
        manners(config),
        limits(config),
        config.metrics_address,
        Webhook(config.webhook, config.webhook_shape),
    )


# Most of the crawler is imported by `crawl` alone, so that other verbs begin in half the time.


def _ready(config: ReposConfig, workspace: Path) -> None:
    load("trawlnet.crawlers.repos.settings:check_crawl")(config, workspace)


def _open(
    config: ReposConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AbstractAsyncContextManager[Parts[Any]]:
    opened: AbstractAsyncContextManager[Parts[Any]]
    opened = load("trawlnet.crawlers.repos.build:open_parts")(config, workspace, clock, metrics)
    return opened


async def _forget(config: ReposConfig) -> None:
    await erase(config.redis_address)


async def _held_by(config: ReposConfig, workspace: Path) -> str:
    return await holder_in(config.redis_address, workspace, "repos")


def _remote(config: ReposConfig) -> str:
    return shown_keys(config.redis_address)


REPOS = Crawler(
    name="repos",
    config=ReposConfig,
    plan=_plan,
    ledger=open_ledger,
    remote=_remote,
    forget=_forget,
    held_by=_held_by,
    outputs=("archive",),
    public_key=did_of,
    example="--contact you@example.org",
    located_by=("store", "redis_address"),
    live=frozenset(("workers", "default_pds_rps", "min_pds_rps", "halve_after", "block_after")),
    ready=_ready,
    facts=facts_about,
    fleet="trawlnet.cli.repos.fleet:run_fleet",
)

CRAWL = RunnableCrawler(REPOS, _open)
