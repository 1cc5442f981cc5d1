"""`trawlnet pds`: every PDS, when it was last scanned, and what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from trawlnet.cli.common.output import say
from trawlnet.cli.common.workspace import Workspace, located
from trawlnet.cli.crawl.crawler import Crawler, CrawlPlan, RunnableCrawler
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.config import PdsConfig, limits, manners
from trawlnet.crawlers.pds.figures import by_process
from trawlnet.crawlers.pds.following.live_row import live_at_rest
from trawlnet.crawlers.pds.records.routing import Routes
from trawlnet.crawlers.pds.registry_place import (
    opened_registry,
    registry_place,
    state_folder,
)
from trawlnet.crawlers.pds.scanning.presence import release_dead
from trawlnet.engine.crawl import Parts
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock, Ledger
from trawlnet.loading import load
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redact
from trawlnet.observe.alerts.shapes import Webhook
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.stores.memory import MemoryStore
from trawlnet.tables.registry.report import held_records, held_so_far
from trawlnet.tables.scanned.scanned import Scanned


def _plan(config: PdsConfig) -> CrawlPlan:
    return CrawlPlan(
        # Looks have as many workers of their own.
        config.concurrency * (2 if config.follow else 1),
        manners(config),
        limits(config),
        config.metrics_address,
        Webhook(config.webhook, config.webhook_shape),
    )


@asynccontextmanager
async def _open(
    config: PdsConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Parts[Any]]:
    # Most of the crawler is imported by `crawl` alone, so that other verbs begin in half the time.
    open_parts = load("trawlnet.crawlers.pds.build:open_parts")
    async with open_parts(config, workspace, clock, metrics) as parts:
        yield parts
    for glob in await _unmatched(config, workspace, clock):
        say(f"hint: no record scanned so far matches --collections {glob}")


async def _unmatched(config: PdsConfig, workspace: Path, clock: Clock) -> Sequence[str]:
    """Globs that no record matches; none before a scan has ended."""
    async with opened_registry(config, workspace) as registry:
        if not (await registry.stats(clock.now())).attempts.get(Reason.OK):
            return ()
        return Routes(config.collections).unmatched(await held_records(registry.db))


@asynccontextmanager
async def _ledger(config: PdsConfig, state: Path) -> AsyncIterator[Ledger]:
    workspace = state.parents[1]
    # `status` must not create a registry.
    place = registry_place(config, workspace)
    if isinstance(place, Path) and not place.exists():
        yield MemoryStore()
        return
    async with opened_registry(config, workspace) as registry:
        yield load("trawlnet.crawlers.pds.registry_ledger:RegistryLedger")(registry, SystemClock())


def _ready(config: PdsConfig, workspace: Path) -> None:
    agent_for(config.contact, allow_private=config.allow_private_hosts)
    if config.follow and (config.once or config.fleet):
        raise NotReady(
            "--follow reads firehoses for as long as the crawl runs, in one process",
            "leave out --once and --fleet",
        )
    if not config.discovers:
        _check_filled(config, workspace)
    elif config.once:
        say("discovering PDSes first; scans begin after that")


def _check_filled(config: PdsConfig, workspace: Path) -> None:
    """Without a source there has to be a PDS, or the crawl waits for others to enter one."""
    place = registry_place(config, workspace)
    is_there = not isinstance(place, Path) or place.exists()
    if is_there and asyncio.run(_registered(config, workspace)):
        return
    if not is_there or config.once:
        given = located({"registry": config.registry})
        place = Workspace(workspace, "pds", given=given).place
        raise NotReady(
            "the registry has no PDS, and no source of PDSes is named",
            "name one: --plc, --relay wss://relay.example, --dids FILE or --mentions; "
            f"or register a PDS: trawlnet pds register {place} URL",
        )
    say("the registry has no PDS, and no source is named: waiting for other processes to add one")


async def _registered(config: PdsConfig, workspace: Path) -> int:
    async with opened_registry(config, workspace) as registry:
        return (await registry.stats(SystemClock().now())).total


def _remote(config: PdsConfig) -> str:
    if "://" not in config.registry:
        return ""
    return f"the registry and all records in {redact(config.registry)}"


async def _forget(config: PdsConfig) -> None:
    if config.registry:
        async with opened_registry(config, Path()) as registry:
            scanned = Scanned(registry.db)
            await scanned.migrate()
            await scanned.forget()
            await registry.forget()


async def _facts(config: PdsConfig, workspace: Path) -> Mapping[str, Any]:
    place = registry_place(config, workspace)
    if isinstance(place, Path) and not place.exists():
        return {}
    clock = SystemClock()
    async with opened_registry(config, workspace) as registry:
        now = clock.now()
        # A killed process scans nothing, although its rows still have its name.
        await release_dead(registry, state_folder(workspace), now)
        await registry.tidy(now)
        stats, claims = await registry.stats(now), await registry.claims(now)
        live = await live_at_rest(registry, now)
        so_far = (await held_so_far(registry.db)).values()
    return {
        "total": stats.total,
        "due": stats.due,
        "active": stats.active,
        "with_chive_records": stats.with_chive_records,
        "unreachable": stats.unreachable,
        "chive_records": stats.chive_records + sum(held.records for held in so_far),
        "indexed_records": stats.indexed_records + sum(held.indexed for held in so_far),
        "by_status": {str(name): count for name, count in stats.by_status.items()},
        "by_source": {str(name): count for name, count in stats.by_source.items()},
        "failures": {str(name): count for name, count in stats.failures.items()},
        "scanning": by_process(claims),
        "collections_without_records": list(await _unmatched(config, workspace, clock)),
        **({} if live is None else {"live": live}),
    }


PDS = Crawler(
    name="pds",
    config=PdsConfig,
    plan=_plan,
    ledger=_ledger,
    remote=_remote,
    forget=_forget,
    outputs=(),
    public_key=str,
    example="--relay wss://relay.example --contact you@example.org",
    located_by=("registry",),
    lists_by_key=True,
    live=frozenset(("concurrency", "requests_per_minute")),
    ready=_ready,
    facts=_facts,
    fleet="trawlnet.cli.pds.fleet:run_nodes",
)

CRAWL = RunnableCrawler(PDS, _open)
