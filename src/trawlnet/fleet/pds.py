"""A pds crawl on a fleet: every process runs the same schedule over one registry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.build import LEXICONS, open_parts
from trawlnet.crawlers.pds.config import PdsConfig, lease, limits
from trawlnet.crawlers.pds.registry_place import opened_registry
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import crawl
from trawlnet.engine.durable import make_directory
from trawlnet.engine.ports import Clock
from trawlnet.fleet.limits import RunLimits
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Runtime
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.stores.redis.fleet.shards import Word
from trawlnet.tables.errors import TablesUnreachable
from trawlnet.tables.registry.registry import Registry

log = logging.getLogger(__name__)

_NOTE: Final = "fleet"  # The note in the registry with the command to all processes.
_PAUSE: Final = 1.0  # Seconds to wait after a server has failed.
_LOOK_EVERY: Final = 1.0


def check_shareable(config: PdsConfig) -> None:
    """Raises NotReady for a registry that only one machine can reach."""
    if not config.registry.startswith(("postgresql://", "postgres://")):
        raise NotReady(
            "a fleet needs a registry that all its processes can reach",
            "name one: --registry postgresql://USER:PASSWORD@HOST/NAME",
        )


async def run_node(job: ShardJob, clock: Clock) -> None:
    """Returns when nothing is left to do, or when a command ends the crawl. Waits out failing
    servers; raises an error in the config."""
    config = PdsConfig.model_validate(job.config)
    folder = _folder(job)
    while True:
        try:
            async with opened_registry(config, folder) as registry:
                if await _word(registry) is Word.RUN:
                    ending = await _crawl(config, folder, registry, clock)
                    if ending is not Ending.DRAINED:
                        await tell(registry, Word.DONE if ending is Ending.DONE else Word.LIMIT)
                return
        except TablesUnreachable as trouble:
            fields = {"node": job.shard, "error": trouble.message}
            log.warning("node restarted", extra=fields)
            await clock.sleep(_PAUSE)


async def _crawl(config: PdsConfig, folder: Path, registry: Registry, clock: Clock) -> Ending:
    async def heed(control: Control) -> None:
        while await _word(registry) is Word.RUN:
            await clock.sleep(_LOOK_EVERY)
        control.drain()

    async with open_parts(config, folder, clock, CrawlMetrics("pds", clock)) as parts:
        parts = replace(parts, companions=[*parts.companions, heed])
        return await crawl(parts, limits(config), Control(config.concurrency))


def _folder(job: ShardJob) -> Path:
    """The folder of this process; the workspace of the fleet's command is above `scratch`."""
    folder, scratch = Path(job.scratch) / f"node-{job.shard}", Path(job.scratch)
    make_directory(folder)
    own = scratch.parents[2] / LEXICONS
    if own.is_dir() and not (folder / LEXICONS).exists():
        (folder / LEXICONS).symlink_to(own)
    return folder


async def tell(registry: Registry, word: Word) -> None:
    await registry.notes.put(_NOTE, str(word))


async def _word(registry: Registry) -> Word:
    return Word(await registry.notes.get(_NOTE) or Word.RUN)


@dataclass(frozen=True, slots=True)
class Watch:
    """The processes of a fleet, as their supervisor sees them."""

    config: PdsConfig
    registry: Registry
    runtime: Runtime
    clock: Clock
    show: Callable[[dict[str, int]], None]  # Called with the number of claims of each process.


async def keep(watch: Watch, stop: asyncio.Event) -> Word:
    """Keep the processes running until nothing is left, or until a command ends them and they have
    ended; returns at once if `stop` is set."""
    limits = RunLimits(watch.clock, watch.config.max_seconds)
    while (word := await _patiently(watch, limits)) is Word.RUN and not stop.is_set():
        for shard in range(watch.config.shards):
            watch.runtime.ensure(shard)
        await watch.clock.sleep(_LOOK_EVERY)
    # Running processes finish their claims; those of dead ones expire.
    until = watch.clock.now() + lease(watch.config)
    while not stop.is_set() and watch.clock.now() < until and await _claimed(watch):
        await watch.clock.sleep(_LOOK_EVERY)
    return word


async def _patiently(watch: Watch, limits: RunLimits) -> Word:
    """The command in the registry; RUN while the registry does not answer."""
    try:
        await _claimed(watch)
        if limits.out_of_time() and await _word(watch.registry) is Word.RUN:
            await tell(watch.registry, Word.LIMIT)
        return await _word(watch.registry)
    except TablesUnreachable as trouble:
        log.warning("fleet waits", extra={"error": trouble.message})
        return Word.RUN


async def _claimed(watch: Watch) -> bool:
    claims = await watch.registry.claims(watch.clock.now())
    watch.show(claims)
    return bool(claims)


@asynccontextmanager
async def opened_watch(
    config: PdsConfig, folder: Path, runtime: Runtime, clock: Clock, show: Callable[..., None]
) -> AsyncIterator[Watch]:
    async with opened_registry(config, folder) as registry:
        await tell(registry, Word.RUN)
        yield Watch(config, registry, runtime, clock, show)
