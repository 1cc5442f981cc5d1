"""Which crawlers can be shared by many shards, and how a shard of each is opened."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from trawlnet.crawlers.share import Opened, Share
from trawlnet.engine.ports import Clock
from trawlnet.fleet.shard import OpenShard, ShardJob, run_shard
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics


async def run_job(job: ShardJob) -> None:
    clock = SystemClock()
    if job.crawler == "ids":
        from trawlnet.fleet.ids import run_member

        await run_member(job, clock)
    elif job.crawler == "pds":
        from trawlnet.fleet.pds import run_node

        await run_node(job, clock)
    else:
        await run_shard(job, _OPENERS[job.crawler](job, clock), clock)


def _repos(job: ShardJob, clock: Clock) -> OpenShard:
    from trawlnet.crawlers.repos.config import ReposConfig
    from trawlnet.crawlers.repos.shared import open_shard

    config = ReposConfig.model_validate(job.config)

    def opened(share: Share) -> AbstractAsyncContextManager[Opened]:
        return open_shard(config, share, clock, CrawlMetrics(job.crawler, clock))

    return opened


def _web(job: ShardJob, clock: Clock) -> OpenShard:
    from trawlnet.crawlers.web.config import WebConfig
    from trawlnet.crawlers.web.shared import open_shard

    config = WebConfig.model_validate(job.config)

    def opened(share: Share) -> AbstractAsyncContextManager[Opened]:
        return open_shard(config, share, clock, CrawlMetrics(job.crawler, clock))

    return opened


_OPENERS = {"repos": _repos, "web": _web}
