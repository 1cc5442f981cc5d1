"""`pds crawl --fleet`: the same schedule in many processes, kept alive wherever Ray runs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from trawlnet.cli.errors import Exit
from trawlnet.cli.signals import interruptible
from trawlnet.cli.talk import emit, listed, say
from trawlnet.cli.workspace import Workspace, shown
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.build import LEXICONS
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.discover import wanted
from trawlnet.crawlers.pds.figures import by_process
from trawlnet.fleet.pds import Watch, check_shareable, keep, opened_watch, tell
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.ray_token import LOCAL
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Runtime
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redact, redacted
from trawlnet.observe.logs import logging_to
from trawlnet.store.redis_fleet import Word

log = logging.getLogger(__name__)

_SHOW_EVERY = 5.0  # Seconds.
_CODES = {Word.DONE: Exit.DONE, Word.LIMIT: Exit.LIMIT}


def run_nodes(config: PdsConfig, workspace: Workspace, as_json: bool) -> int:
    """Start or continue the crawl on a fleet; returns the exit code."""
    check_shareable(config)
    wanted(config, workspace.path)  # What is wrong with the config is said here.
    if config.fleet != LOCAL and (workspace.path / LEXICONS).exists():
        raise NotReady(
            "lexicons of your own stay in this workspace: other machines do not see them",
            "run trawlnet pds crawl on each machine, with its own lexicons folder",
        )
    name = f"pds-fleet-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with logging_to(workspace.logs, name, say) as log_file:
        where = redact(config.registry)
        say(f"{config.shards} processes crawl what {where} lists; log in {shown(log_file)}")
        told = redacted(config.model_dump(mode="json"))
        log.info("fleet began", extra={"config": json.dumps(told)})
        with ray_runtime(config.fleet, _job(config, workspace)) as runtime:
            return asyncio.run(_crawl(config, workspace.path, runtime, as_json))


def _job(config: PdsConfig, workspace: Workspace) -> ShardJob:
    # All of them together ask the directory no faster than one alone would.
    changed = {"plc_rps": config.plc_rps / config.shards, "metrics_address": ""}
    if config.dids:
        changed["dids"] = str(Path(config.dids).resolve())
    return ShardJob(
        shard=0,
        crawler="pds",
        config=config.model_copy(update=changed).model_dump(mode="json", exclude={"webhook"}),
        store="",
        s3={},
        stands=config.claim_timeout,
        manners_gap=0.0,
        scratch=str((workspace.state / "fleet").resolve()),
    )


async def _crawl(config: PdsConfig, path: Path, runtime: Runtime, as_json: bool) -> int:
    clock, show = SystemClock(), _Show(as_json)
    async with opened_watch(config, path, runtime, clock, show.look_at) as watch:
        with _steered_by_signals(watch) as stop:
            word = await keep(watch, stop)
        stats = await watch.registry.stats(clock.now())
    by_status = {str(name): count for name, count in stats.by_status.items()}
    if as_json:
        emit({"event": "summary", "ending": word, "by_status": by_status, "due": stats.due})
    else:
        say(f"ended: {word}; PDSes: {listed(by_status)}; {stats.due:,} due")
    return _CODES.get(word, Exit.INTERRUPTED)


@contextmanager
def _steered_by_signals(watch: Watch) -> Iterator[asyncio.Event]:
    """Once drains the fleet; twice sets the event, and it ends at once."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    changes: set[asyncio.Task[None]] = set()

    def first() -> str:
        changes.add(loop.create_task(tell(watch.registry, Word.DRAIN)))
        return "the fleet finishes its scans"

    with interruptible(first, stop.set):
        yield stop


class _Show:
    """A line now and then, or an object."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._clock = SystemClock()
        self._next = 0.0

    def look_at(self, claims: Mapping[str, int]) -> None:
        if self._clock.now() < self._next:
            return
        self._next = self._clock.now() + _SHOW_EVERY
        if self._as_json:
            emit({"event": "progress", "scanning": by_process(claims)})
        else:
            say(f"scanning: {listed(by_process(claims)) or 'nothing just now'}")
