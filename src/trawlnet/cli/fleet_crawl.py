"""A crawl by many processes: start the fleet, watch over it, show it, and say how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime

from trawlnet.archive.objects import s3_options
from trawlnet.cli.alerting import begun as alert_of_beginning
from trawlnet.cli.alerting import ended as alert_of_end
from trawlnet.cli.alerting import refuse_bad_webhook, telling
from trawlnet.cli.ending import given_up_on
from trawlnet.cli.fleet_command import Ended, Show, say_scaled, servers, steered_by_signals, sum_up
from trawlnet.cli.talk import say
from trawlnet.cli.workspace import Workspace, shown
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.expected import expected
from trawlnet.crawlers.repos.given import given_by
from trawlnet.crawlers.repos.recheck import reopen
from trawlnet.crawlers.repos.shared import check_shareable
from trawlnet.fleet.compose import Composer
from trawlnet.fleet.limits import RunLimits
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Command, Runtime, begin, supervise
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redacted
from trawlnet.observe.alert_shapes import Webhook
from trawlnet.observe.logs import logging_to
from trawlnet.sink.objects import check_archive, open_objects
from trawlnet.store.redis_fleet import Word

log = logging.getLogger(__name__)


def run_fleet(config: ReposConfig, workspace: Workspace, as_json: bool) -> int:
    """Start or continue a crawl that many shards share; returns the exit code."""
    check_shareable(config)
    given_by(config)  # What is wrong with the config is said here, not by every shard.
    refuse_bad_webhook(_webhook(config))
    s3 = s3_options(os.environ)
    check_archive(config.archive, s3)
    name = f"{workspace.crawler}-fleet-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with logging_to(workspace.logs, name, say) as log_file:
        say(f"a fleet crawls into {config.archive}; log in {shown(log_file)}")
        told = redacted(config.model_dump(mode="json"))
        log.info("fleet began", extra={"config": json.dumps(told)})
        with ray_runtime(config.fleet, _job(config, workspace, s3)) as runtime:
            return asyncio.run(_crawl(config, workspace, runtime, s3, as_json))


def _job(config: ReposConfig, workspace: Workspace, s3: Mapping[str, str]) -> ShardJob:
    return ShardJob(
        shard=0,
        crawler=workspace.crawler,
        # Only whoever commands the fleet tells of it: the shards need no secret for that.
        config=config.model_dump(mode="json", exclude={"webhook"}),
        store=config.redis_address,
        s3=s3,
        stands=config.shard_timeout,
        manners_gap=1.0 / min(config.min_pds_rps, config.small_pds_rps),
        scratch=str((workspace.state / "fleet").resolve()),
    )


async def _crawl(
    config: ReposConfig,
    workspace: Workspace,
    runtime: Runtime,
    s3: Mapping[str, str],
    as_json: bool,
) -> int:
    clock, show = SystemClock(), Show(as_json)
    begun = clock.now()
    async with (
        telling("repos", _webhook(config), clock) as alerts,
        servers(config.redis_address) as (keys, store),
    ):
        alerts.tell(alert_of_beginning("repos", await store.counts(), begun))
        plan = await keys.plan()
        if plan.word is Word.DONE:
            await reopen(store, begun - config.recheck_inactive)
        objects = open_objects(config.archive, s3)
        composer = Composer(keys, objects, clock, config.segment_size)
        limits = RunLimits(clock, config.max_seconds, config.max_tasks)
        stands = config.shard_timeout
        command = Command(
            keys, store, composer, runtime, clock, stands, show.look_at, limits.reached
        )
        loads = await expected(config, workspace.path)
        say_scaled(await begin(keys, config.shards, expected=loads), config.shards)
        with steered_by_signals(keys):
            word = await supervise(command)
        ended = Ended("repos", word, await store.counts(), clock.now() - begun)
        lines = await keys.manifest()
        lost = given_up_on(ended.counts)
        alerts.tell(alert_of_end("repos", ended.story, lost, clock.now()))
    archive = {"segments": len(lines), "repos": sum(line["repos"] for line in lines)}
    words = f"the manifest lists {archive['repos']:,} repos in {archive['segments']:,} segments"
    sum_up(ended, archive, words, as_json)
    return ended.code


def _webhook(config: ReposConfig) -> Webhook:
    return Webhook(config.webhook, config.webhook_shape)
