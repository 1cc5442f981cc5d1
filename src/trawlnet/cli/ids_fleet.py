"""`ids crawl --fleet`: one active process and one on standby, kept alive wherever Ray runs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from datetime import UTC, datetime
from typing import Any

from trawlnet.cli.errors import Exit
from trawlnet.cli.fleet_command import steered_by_signals
from trawlnet.cli.talk import emit, say
from trawlnet.cli.workspace import Workspace, shown
from trawlnet.crawlers.ids.api import api_headers
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.kept import check_shareable
from trawlnet.crawlers.ids.places import KEYS
from trawlnet.crawlers.ids.presets import api_of, base_of, needs_key
from trawlnet.fleet.ids import Pair, keep, office_of
from trawlnet.fleet.limits import RunLimits
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.standby import Holders
from trawlnet.fleet.supervise import Runtime, begin
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redacted
from trawlnet.observe.logs import logging_to
from trawlnet.store.redis_fleet import FleetKeys, Word

log = logging.getLogger(__name__)

_SHOW_EVERY = 5.0  # Seconds.


def run_pair(config: IdsConfig, workspace: Workspace, as_json: bool) -> int:
    """Start or continue the crawl on a fleet; returns the exit code."""
    check_shareable(config)
    base_of(config)  # What is wrong with the config is said here, not by every member.
    name = f"ids-fleet-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with logging_to(workspace.logs, name, say) as log_file:
        say(f"a fleet keeps up with {config.base_url}; log in {shown(log_file)}")
        told = redacted(config.model_dump(mode="json"))
        log.info("fleet began", extra={"config": json.dumps(told)})
        with ray_runtime(config.fleet, _job(config, workspace)) as runtime:
            return asyncio.run(_crawl(config, runtime, as_json))


def _job(config: IdsConfig, workspace: Workspace) -> ShardJob:
    api = api_of(config)
    api_headers(api, os.environ, required=needs_key(config))
    key = {name: os.environ[name] for name in [api.key_variable] if name in os.environ}
    return ShardJob(
        shard=0,
        crawler="ids",
        config=config.model_dump(mode="json", exclude={"webhook"}),
        store=config.redis_address,
        s3={},
        stands=config.shard_timeout,
        manners_gap=0.0,
        scratch=str((workspace.state / "fleet").resolve()),
        secrets=key,
    )


async def _crawl(config: IdsConfig, runtime: Runtime, as_json: bool) -> int:
    clock, show = SystemClock(), _Show(as_json)
    keys = await FleetKeys.open(config.redis_address, prefix=KEYS)
    try:
        await begin(keys, 1, "ids")
        with steered_by_signals(keys):
            limits = RunLimits(clock, config.max_seconds)
            word = await keep(Pair(office_of(config), runtime, clock, show.look_at, limits))
    finally:
        await keys.close()
    say(f"ended: {word}; what was settled stands in Redis")
    return Exit.LIMIT if word in (Word.LIMIT, Word.DONE) else Exit.INTERRUPTED


class _Show:
    """A line now and then, or an object."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._clock = SystemClock()
        self._next = 0.0

    def look_at(self, seen: Holders) -> None:
        if self._clock.now() < self._next:
            return
        self._next = self._clock.now() + _SHOW_EVERY
        if self._as_json:
            emit({"event": "progress"} | holders_row(seen))
        else:
            say(holders_text(seen))


def holders_row(seen: Holders) -> dict[str, Any]:
    return {"word": seen.plan.word, "active": seen.active, "standby": seen.standbys}


def holders_text(seen: Holders) -> str:
    lines = [f"{seen.plan.word}: {'one is' if seen.active else 'nobody is'} active"]
    if (one := seen.active) is not None:
        lines.append(
            f"  active: {one['node']} pid {one['pid']}, as {one['token']}: {one['rate']:g} tries/s,"
            f" {one['in_flight']} in flight, settled up to {one.get('watermark')}"
        )
    lines += [f"  standby: {one['node']} pid {one['pid']}" for one in seen.standbys]
    return "\n".join(lines)
