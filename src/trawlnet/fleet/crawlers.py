"""The crawlers that can run as a fleet, and how a shard of each is opened."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from trawlnet.crawlers.share import Opened, Share
from trawlnet.engine.ports import Clock
from trawlnet.fleet.shard import OpenShard, ShardJob, run_shard
from trawlnet.loading import load
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics


async def run_job(job: ShardJob) -> None:
    clock = SystemClock()
    if job.crawler == "ids":
        await load("trawlnet.fleet.ids:run_member")(job, clock)
    elif job.crawler == "pds":
        await load("trawlnet.fleet.pds:run_node")(job, clock)
    else:
        await run_shard(job, _opener(job, clock), clock)


def _opener(job: ShardJob, clock: Clock) -> OpenShard:
    """A shard imports its own crawler, and no other."""
    crawler = f"trawlnet.crawlers.{job.crawler}"
    config = load(f"{crawler}.config:{_CONFIGS[job.crawler]}").model_validate(job.config)
    open_shard = load(f"{crawler}.shared:open_shard")

    def opened(share: Share) -> AbstractAsyncContextManager[Opened]:
        found: AbstractAsyncContextManager[Opened] = open_shard(
            config, share, clock, CrawlMetrics(job.crawler, clock)
        )
        return found

    return opened


_CONFIGS = {"repos": "ReposConfig", "web": "WebConfig"}
