"""`web crawl --fleet`: the hosts are shared by shards, which archive into one place."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from trawlnet.cli.common.workspace import Workspace, create
from trawlnet.cli.crawl.alerting import refuse_bad_webhook
from trawlnet.cli.crawl.dashboard_child import variables_for, with_dashboard
from trawlnet.cli.fleet.command import (
    FleetCrawl,
    Shards,
    Start,
    job_of,
    run_shards,
    webhook_of,
)
from trawlnet.cli.web.crawler import WEB, RunOutput
from trawlnet.crawlers.web.admission.shared_caps import budgets_of, is_spent
from trawlnet.crawlers.web.build import check_crawl
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.ledger import redis_url
from trawlnet.crawlers.web.shared import check_shareable
from trawlnet.crawlers.web.source import read_seeds, remember_seeds
from trawlnet.engine.ports import Clock
from trawlnet.fleet.compose_captures import CaptureComposer
from trawlnet.fleet.supervise import Seen
from trawlnet.storage.objects import check_archive, open_objects
from trawlnet.storage.s3 import SCHEME, s3_options
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore

_CRAWLER = "web"


def crawl_with_many(config: WebConfig, path: Path, seeds: tuple[str, ...], ask: RunOutput) -> int:
    """Start or continue a crawl that many shards share; returns the exit code."""
    check_shareable(config)
    check_crawl(config, path, seeds)
    workspace = create(path, _CRAWLER)
    variables = variables_for(_CRAWLER, config, (*WEB.located_by, "fleet"))
    with with_dashboard(ask.dashboard, workspace, variables):
        return _run(config, workspace, seeds, ask.as_json)


def _run(config: WebConfig, workspace: Workspace, seeds: tuple[str, ...], as_json: bool) -> int:
    refuse_bad_webhook(webhook_of(config))
    config = _for_shards(config, workspace.path, seeds)
    remember_seeds(workspace.path, seeds)
    s3 = s3_options(os.environ)
    check_archive(config.archive, s3)
    # A new owner of a lane needs no pause first: Redis has every turn and its gap.
    job = job_of(config, workspace, config.shard_timeout, store=redis_url(config), s3=s3)
    start = Start(workspace, config.fleet, f"a fleet crawls into {config.archive}", job)
    shards = shards_of(config, s3)
    return run_shards(start, config, shards, as_json)


def _for_shards(config: WebConfig, workspace: Path, more_seeds: tuple[str, ...]) -> WebConfig:
    """The config with absolute paths, for processes on other machines."""
    seeds = tuple(read_seeds(workspace, (*more_seeds, *config.seeds)))
    archive = config.archive
    if not archive.startswith(SCHEME):
        archive = str(Path(archive).resolve())
    return config.model_copy(update={"seeds": seeds, "archive": archive})


def shards_of(config: WebConfig, s3: Mapping[str, str]) -> Shards:
    async def open(keys: FleetKeys, store: RedisStore, clock: Clock) -> FleetCrawl:
        begun = clock.now()
        composer = CaptureComposer(keys, open_objects(config.archive, s3))
        await composer.check_place()
        # A limit counts for one run: the next command has its own.
        over = (Word.DONE, Word.LIMIT)
        reached = limits_of(config, keys, lambda: clock.now() - begun)
        return FleetCrawl(composer, reached, {"over": over})

    return Shards(
        _CRAWLER,
        redis_url(config),
        config.shards,
        config.shard_timeout,
        webhook_of(config),
        open,
        counted="captures",
        files="logs",
        tell_left_out=WEB.tell_left_out,
    )


def limits_of(
    config: WebConfig, keys: FleetKeys, elapsed: Callable[[], float]
) -> Callable[[Seen], Awaitable[bool]]:
    """Limits of the whole crawl, which no shard can check."""

    async def reached(seen: Seen) -> bool:
        if config.caps.max_seconds is not None and elapsed() >= config.caps.max_seconds:
            return True
        return await is_spent(keys, budgets_of(config, seen.plan.run))

    return reached
