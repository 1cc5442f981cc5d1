"""`ids crawl --fleet`: one active process and one standby; Ray restarts them on any node."""

from __future__ import annotations

import os
from typing import Any

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.output import say
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.fleet.command import Show, Start, job_of, run_with_ray, steered_by_signals
from trawlnet.crawlers.ids.api.api import api_headers
from trawlnet.crawlers.ids.api.presets import api_of, base_of, needs_key
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.ledger.open_ledger import check_shareable
from trawlnet.crawlers.ids.storing.locations import KEYS
from trawlnet.fleet.ids import Pair, keep, leadership_of
from trawlnet.fleet.limits import RunLimits
from trawlnet.fleet.standby import Holders
from trawlnet.fleet.supervise import Runtime, begin
from trawlnet.net.clock import SystemClock
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word


def run_pair(config: IdsConfig, workspace: Workspace, as_json: bool) -> int:
    """Start or continue the crawl on a fleet; returns the exit code."""
    check_shareable(config)
    base_of(config)  # Report a wrong config once, here, instead of in every process.
    api = api_of(config)
    api_headers(api, os.environ, required=needs_key(config))
    secrets = {name: os.environ[name] for name in [api.key_variable] if name in os.environ}
    job = job_of(
        config, workspace, config.shard_timeout, store=config.redis_address, secrets=secrets
    )
    start = Start(workspace, config.fleet, f"a fleet keeps up with {config.base_url}", job)
    return run_with_ray(start, config, lambda runtime: _crawl(config, runtime, as_json))


async def _crawl(config: IdsConfig, runtime: Runtime, as_json: bool) -> int:
    clock, show = SystemClock(), Show(as_json, holders_row, holders_text)
    keys = await FleetKeys.open(config.redis_address, prefix=KEYS)
    try:
        await begin(keys, 1, "ids")
        with steered_by_signals(lambda word: keys.change(word=word)):
            limits = RunLimits(clock, config.max_seconds)
            word = await keep(Pair(leadership_of(config), runtime, clock, show.look_at, limits))
    finally:
        await keys.close()
    say(f"ended: {word}; settled ids are in Redis")
    return Exit.LIMIT if word in (Word.LIMIT, Word.DONE) else Exit.INTERRUPTED


def holders_row(seen: Holders) -> dict[str, Any]:
    return {"word": seen.plan.word, "active": seen.active, "standby": seen.standbys}


def holders_text(seen: Holders) -> str:
    lines = [f"{seen.plan.word}: {'one process is' if seen.active else 'no process is'} active"]
    if (one := seen.active) is not None:
        lines.append(
            f"  active: {one['node']} pid {one['pid']}, as {one['token']}:"
            f" {one['rate']:g} attempts/s, {one['in_flight']} in flight,"
            f" settled up to {one.get('watermark')}"
        )
    lines += [f"  standby: {one['node']} pid {one['pid']}" for one in seen.standbys]
    return "\n".join(lines)
