"""`repos crawl --fleet`: the hosts are shared by shards, which archive into one place."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from trawlnet.archive.reader import check_versions
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.crawl.alerting import refuse_bad_webhook
from trawlnet.cli.fleet.command import (
    FleetCrawl,
    Shards,
    Start,
    job_of,
    run_shards,
    webhook_of,
)
from trawlnet.crawlers.repos.build import begin_sweep, open_mirror
from trawlnet.crawlers.repos.config import ReposConfig, SourceKind
from trawlnet.crawlers.repos.settings import settings_of
from trawlnet.crawlers.repos.shared import check_shareable
from trawlnet.crawlers.repos.work import lane_at
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.engine.partition import bucket_of
from trawlnet.engine.ports import Clock
from trawlnet.fleet.compose import Composer
from trawlnet.fleet.limits import RunLimits
from trawlnet.storage.objects import check_archive, open_objects
from trawlnet.storage.s3 import s3_options
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.plc import endpoints
from trawlnet.tables.clickhouse.ports import Tables


def run_fleet(config: ReposConfig, workspace: Workspace, as_json: bool) -> int:
    """Start or continue a crawl that many shards share; returns the exit code."""
    check_shareable(config)
    settings_of(config)  # What is wrong with the config is said here, not by every shard.
    refuse_bad_webhook(webhook_of(config))
    s3 = s3_options(os.environ)
    check_versions(Path(config.archive))  # In a bucket each segment would cost a request.
    check_archive(config.archive, s3)
    job = job_of(
        config,
        workspace,
        config.shard_timeout,
        store=config.redis_address,
        s3=s3,
        manners_gap=1.0 / min(config.min_pds_rps, config.small_pds_rps),
    )
    start = Start(workspace, config.fleet, f"a fleet crawls into {config.archive}", job)
    shards = shards_of(config, workspace, s3)
    return run_shards(start, config, shards, as_json)


def shards_of(config: ReposConfig, workspace: Workspace, s3: Mapping[str, str]) -> Shards:
    async def open(keys: FleetKeys, store: RedisStore, clock: Clock) -> FleetCrawl:
        if (await keys.plan()).word is Word.DONE:
            async with AsyncExitStack() as stack:
                mirror = await open_mirror(config, workspace.path, stack)
                await begin_sweep(config, store, mirror, clock)
        composer = Composer(keys, open_objects(config.archive, s3), clock, config.segment_size)
        limits = RunLimits(clock, config.max_seconds, config.max_tasks)
        loads = await expected(config, workspace.path)
        return FleetCrawl(composer, limits.reached, {"expected": loads})

    return Shards(
        "repos",
        config.redis_address,
        config.shards,
        config.shard_timeout,
        webhook_of(config),
        open,
        counted="repos",
        files="segments",
    )


async def expected(config: ReposConfig, workspace: Path) -> Counter[int]:
    """By the mirror, if that is the source; whom a relay knows is not known before it is asked."""
    if config.chosen_source is not SourceKind.PLC:
        return Counter()
    async with opened(tables_place(config, workspace)) as tables:
        return await expected_by(tables)


async def expected_by(tables: Tables) -> Counter[int]:
    found: Counter[int] = Counter()
    for pds, accounts in (await endpoints(tables)).items():
        found[bucket_of(lane_at(pds))] += accounts
    return found
