"""A web crawl by many processes: `trawlnet web crawl --fleet`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from trawlnet.archive.objects import SCHEME, s3_options
from trawlnet.cli.alerting import begun as alert_of_beginning
from trawlnet.cli.alerting import ended as alert_of_end
from trawlnet.cli.alerting import refuse_bad_webhook, telling
from trawlnet.cli.dashboard_child import variables_for, with_dashboard
from trawlnet.cli.ending import given_up_on
from trawlnet.cli.fleet_command import Ended, Show, say_scaled, servers, steered_by_signals, sum_up
from trawlnet.cli.talk import say
from trawlnet.cli.web import WEB, Ask
from trawlnet.cli.workspace import Workspace, create, shown
from trawlnet.crawlers.web.build import check_crawl, redis_url
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.shared import check_shareable
from trawlnet.crawlers.web.shared_caps import budgets_of, is_spent
from trawlnet.crawlers.web.source import read_seeds, remember_seeds
from trawlnet.fleet.compose_captures import CaptureComposer
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Command, Runtime, Seen, begin, supervise
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redacted
from trawlnet.observe.alert_shapes import Webhook
from trawlnet.observe.logs import logging_to
from trawlnet.sink.objects import check_archive, open_objects
from trawlnet.store.redis_fleet import FleetKeys, Word

log = logging.getLogger(__name__)

_CRAWLER = "web"


def crawl_with_many(config: WebConfig, path: Path, seeds: tuple[str, ...], ask: Ask) -> int:
    """Start or continue a crawl that many shards share; returns the exit code."""
    check_shareable(config)
    check_crawl(config, path, seeds)
    workspace = create(path, _CRAWLER)
    told = variables_for(_CRAWLER, config, (*WEB.located_by, "fleet"))
    with with_dashboard(ask.dashboard, workspace, told):
        return _run(config, workspace, seeds, ask.as_json)


def _run(config: WebConfig, workspace: Workspace, given: tuple[str, ...], as_json: bool) -> int:
    refuse_bad_webhook(_webhook(config))
    config = _for_shards(config, workspace.path, given)
    remember_seeds(workspace.path, given)
    s3 = s3_options(os.environ)
    check_archive(config.archive, s3)
    name = f"{_CRAWLER}-fleet-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with logging_to(workspace.logs, name, say) as log_file:
        say(f"a fleet crawls into {config.archive}; log in {shown(log_file)}")
        told = redacted(config.model_dump(mode="json", exclude={"seeds"}))
        log.info("fleet began", extra={"config": json.dumps(told), "seeds": len(config.seeds)})
        with ray_runtime(config.fleet, _job(config, workspace, s3)) as runtime:
            return asyncio.run(_crawl(config, runtime, s3, as_json))


def _for_shards(config: WebConfig, workspace: Path, given: tuple[str, ...]) -> WebConfig:
    """Nothing in it is relative to where it was typed."""
    seeds = tuple(read_seeds(workspace, (*given, *config.seeds)))
    archive = config.archive
    if not archive.startswith(SCHEME):
        archive = str(Path(archive).resolve())
    return config.model_copy(update={"seeds": seeds, "archive": archive})


def _job(config: WebConfig, workspace: Workspace, s3: Mapping[str, str]) -> ShardJob:
    return ShardJob(
        shard=0,
        crawler=_CRAWLER,
        # Only whoever commands the fleet tells of it: the shards need no secret for that.
        config=config.model_dump(mode="json", exclude={"webhook"}),
        store=redis_url(config),
        s3=s3,
        stands=config.shard_timeout,
        manners_gap=0.0,  # Turns are written down in Redis, gaps and all.
        scratch=str((workspace.state / "fleet").resolve()),
    )


async def _crawl(config: WebConfig, runtime: Runtime, s3: Mapping[str, str], as_json: bool) -> int:
    clock, show = SystemClock(), Show(as_json)
    begun = clock.now()
    async with (
        telling(_CRAWLER, _webhook(config), clock) as alerts,
        servers(redis_url(config)) as (keys, store),
    ):
        alerts.tell(alert_of_beginning(_CRAWLER, await store.counts(), begun))
        composer = CaptureComposer(keys, open_objects(config.archive, s3))
        enough = limits_of(config, keys, lambda: clock.now() - begun)
        stands = config.shard_timeout
        command = Command(keys, store, composer, runtime, clock, stands, show.look_at, enough)
        await composer.check_place()
        # A limit is one of each run: the next command has a budget of its own.
        plan = await begin(keys, config.shards, _CRAWLER, over=(Word.DONE, Word.LIMIT))
        say_scaled(plan, config.shards)
        with steered_by_signals(keys):
            word = await supervise(command)
        ended = Ended(_CRAWLER, word, await store.counts(), clock.now() - begun)
        lines = await keys.manifest()
        lost = given_up_on(ended.counts)
        alerts.tell(alert_of_end(_CRAWLER, ended.story, lost, clock.now()))
    archive = {"logs": len(lines), "captures": sum(line["captures"] for line in lines)}
    words = f"the manifest lists {archive['captures']:,} captures in {archive['logs']:,} logs"
    sum_up(ended, archive, words, as_json)
    return ended.code


def limits_of(
    config: WebConfig, keys: FleetKeys, elapsed: Callable[[], float]
) -> Callable[[Seen], Awaitable[bool]]:
    """Limits of the whole crawl, which no shard can see."""

    async def reached(seen: Seen) -> bool:
        if config.caps.max_seconds is not None and elapsed() >= config.caps.max_seconds:
            return True
        return await is_spent(keys, budgets_of(config, seen.plan.run))

    return reached


def _webhook(config: WebConfig) -> Webhook:
    return Webhook(config.webhook, config.webhook_shape)
