"""An ids crawl on a fleet: one of its members is active, the others stand by."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trawlnet.crawlers.ids.build import open_parts
from trawlnet.crawlers.ids.config import IdsConfig, limits
from trawlnet.crawlers.ids.controller import ledger_row
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.storing.locations import KEYS
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Parts, crawl
from trawlnet.engine.ports import Clock
from trawlnet.fleet.limits import RunLimits
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.standby import (
    Holders,
    LeaderEpoch,
    LeaderFenced,
    Leadership,
    leading,
    watching,
)
from trawlnet.fleet.supervise import Runtime
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.storage.errors import SinkUnreachable
from trawlnet.stores.errors import Fenced, StoreUnreachable
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word

log = logging.getLogger(__name__)

Look = Callable[[], Awaitable[Holders]]

MEMBERS: Final = 2  # One crawls, one waits.
_PAUSE: Final = 1.0  # Seconds after a server has gone away.
_LOOK_EVERY: Final = 0.5
_SILENT: Final = 3.0  # Multiples of the ttl after which a silent member is replaced.
_BEGINS: Final = 60.0  # Seconds that a new member may take to report.


def leadership_of(config: IdsConfig, member: int = 0) -> Leadership:
    return Leadership(config.redis_address, KEYS, config.shard_timeout, member)


def with_term(parts: Parts[Any], term: LeaderEpoch) -> Parts[Any]:
    """The parts, whose figures each heartbeat reports, and whose crawl ends with the term."""
    ledger = parts.ledger
    assert isinstance(ledger, IdsLedger)
    term.figures = lambda: ledger_row(ledger)
    return replace(parts, companions=[*parts.companions, term.watch])


async def run_member(job: ShardJob, clock: Clock) -> None:
    """Returns when a command ends the crawl. Waits out failing servers; raises an error in the
    config."""
    config = IdsConfig.model_validate(job.config)
    while True:
        try:
            if await _one_term(config, job, clock) is not Ending.DRAINED:
                await _close(config.redis_address, Word.LIMIT)
            return
        except LeaderFenced:
            return
        except (StoreUnreachable, SinkUnreachable, Fenced) as trouble:
            fields = {"member": job.shard, "error": trouble.message}
            log.warning("member restarted", extra=fields)
            await clock.sleep(_PAUSE)


async def _one_term(config: IdsConfig, job: ShardJob, clock: Clock) -> Ending:
    folder = Path(job.scratch) / f"member-{job.shard}"
    environ = {**os.environ, **job.secrets}
    metrics = CrawlMetrics(job.crawler, clock)
    async with leading(leadership_of(config, job.shard), clock, begin=False) as term:
        opened = open_parts(config, folder, clock, metrics, term.ownership, environ)
        async with opened as parts:
            return await crawl(
                with_term(parts, term), limits(config), Control(config.first_workers)
            )


async def _close(store: str, word: Word) -> None:
    """End the crawl for all members: no standby takes over."""
    keys = await FleetKeys.open(store, prefix=KEYS)
    try:
        await keys.end(word)
    finally:
        await keys.close()


@dataclass(frozen=True, slots=True)
class Pair:
    """The active process and its standby, as their supervisor sees them."""

    leadership: Leadership
    runtime: Runtime
    clock: Clock
    show: Callable[[Holders], None]
    limits: RunLimits


async def keep(pair: Pair) -> Word:
    """Keep the members running until a command ends the crawl and they have ended; returns the
    command. Raises StateLost."""
    async with watching(pair.leadership.store, pair.leadership.prefix) as look:
        return await _supervise(pair, look)


async def _supervise(pair: Pair, look: Look) -> Word:
    heard: dict[int, float] = {}
    while True:
        seen = await _look(look)
        if seen is not None:
            pair.show(seen)
            if seen.plan.word is not Word.RUN:
                break
            if pair.limits.out_of_time():  # Over all terms: each has a clock of its own.
                await _close(pair.leadership.store, Word.LIMIT)
                continue
        for member in range(MEMBERS):
            _keep_one(pair, member, seen, heard)
        await pair.clock.sleep(_LOOK_EVERY)
    while (seen := await _look(look)) is None or seen.active or seen.standbys:
        await pair.clock.sleep(_LOOK_EVERY)
    return seen.plan.word


def _keep_one(pair: Pair, member: int, seen: Holders | None, heard: dict[int, float]) -> None:
    now = pair.clock.now()
    here: list[Mapping[str, Any]] = [*seen.standbys, *filter(None, [seen.active])] if seen else []
    if seen is None or any(one["member"] == member for one in here):
        heard[member] = now
    if now - heard.setdefault(member, now + _BEGINS) > _SILENT * pair.leadership.stands:
        log.warning("member replaced", extra={"member": member})
        heard[member] = now + _BEGINS
        pair.runtime.replace(member)
    pair.runtime.ensure(member)


async def _look(look: Look) -> Holders | None:
    """None while Redis is away: its restart is waited out, as the members do."""
    try:
        return await look()
    except StoreUnreachable as trouble:
        log.warning("fleet waits", extra={"error": trouble.message})
        return None
