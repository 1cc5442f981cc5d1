"""`pds crawl --fleet`: one schedule in many processes; Ray restarts them on any node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.output import emit, listed, say
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.fleet.command import Show, Start, job_of, run_with_ray, steered_by_signals
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.build import LEXICONS
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.discovery.cycle import wanted
from trawlnet.crawlers.pds.figures import by_process
from trawlnet.fleet.pds import check_shareable, keep, opened_watch, tell
from trawlnet.fleet.ray_token import LOCAL
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Runtime
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redact
from trawlnet.stores.redis.fleet.shards import Word

_CODES = {Word.DONE: Exit.DONE, Word.LIMIT: Exit.LIMIT}


def run_nodes(config: PdsConfig, workspace: Workspace, as_json: bool) -> int:
    """Start or continue the crawl on a fleet; returns the exit code."""
    check_shareable(config)
    wanted(config, workspace.path)  # Report a wrong config once, here.
    if config.fleet != LOCAL and (workspace.path / LEXICONS).exists():
        raise NotReady(
            "lexicons of your own stay in this workspace: other machines do not see them",
            "run trawlnet pds crawl on each machine, with its own lexicons folder",
        )
    headline = f"{config.shards} processes crawl what {redact(config.registry)} lists"
    start = Start(workspace, config.fleet, headline, _job(config, workspace))
    return run_with_ray(
        start, config, lambda runtime: _crawl(config, workspace.path, runtime, as_json)
    )


def _job(config: PdsConfig, workspace: Workspace) -> ShardJob:
    # All processes together send the directory no more requests than one alone would.
    changed = {"plc_rps": config.plc_rps / config.shards, "metrics_address": ""}
    if config.dids:
        changed["dids"] = str(Path(config.dids).resolve())
    return job_of(config.model_copy(update=changed), workspace, config.claim_timeout)


async def _crawl(config: PdsConfig, path: Path, runtime: Runtime, as_json: bool) -> int:
    clock, stop, show = SystemClock(), asyncio.Event(), Show(as_json, _row, _line)
    async with opened_watch(config, path, runtime, clock, show.look_at) as watch:
        with steered_by_signals(lambda word: tell(watch.registry, word), stop.set):
            word = await keep(watch, stop)
        stats = await watch.registry.stats(clock.now())
    by_status = {str(name): count for name, count in stats.by_status.items()}
    if as_json:
        emit({"event": "summary", "ending": word, "by_status": by_status, "due": stats.due})
    else:
        say(f"ended: {word}; PDSes: {listed(by_status)}; {stats.due:,} due")
    code = _CODES.get(word, Exit.INTERRUPTED)
    return Exit.GIVEN_UP if code is Exit.DONE and stats.failures else code


def _row(claims: Mapping[str, int]) -> Mapping[str, Any]:
    return {"scanning": by_process(claims)}


def _line(claims: Mapping[str, int]) -> str:
    return f"scanning: {listed(by_process(claims))}"
