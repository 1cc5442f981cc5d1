"""Builds the registry, the HTTP client and the parts of a crawl from config and workspace."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.atproto.identity import resolve
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.metered import Getter, MeteredHttp
from trawlnet.crawlers.pds.config import PdsConfig, gap, lease, manners
from trawlnet.crawlers.pds.discovery.cycle import wanted
from trawlnet.crawlers.pds.discovery.finding import Finder
from trawlnet.crawlers.pds.discovery.rounds import Rounds
from trawlnet.crawlers.pds.due_source import DueSource
from trawlnet.crawlers.pds.following.open_following import LookGround, following
from trawlnet.crawlers.pds.records.lexicon_files import load_lexicons
from trawlnet.crawlers.pds.records.routing import Routes
from trawlnet.crawlers.pds.registry_place import opened_registry, state_folder
from trawlnet.crawlers.pds.scanning.ending import SliceEnd
from trawlnet.crawlers.pds.scanning.parts import ScanLimits, ScanParts
from trawlnet.crawlers.pds.scanning.presence import release_dead
from trawlnet.crawlers.pds.scanning.slice import ScanSlice
from trawlnet.crawlers.pds.scanning.work import ScanHandler, ScanSink
from trawlnet.crawlers.pds.schedule import BatchPlan, ClaimRules, RegistryStore, StoreHooks
from trawlnet.engine.crawl import Feed, Parts
from trawlnet.engine.durable import make_directory
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.lane import lane_of
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.pds import PdsMeter, show_hosts
from trawlnet.observe.traces.wrappers import traced_turns
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import Which
from trawlnet.tables.scanned.scanned import Scanned

_NAME = "name"  # In the state folder.
LEXICONS = "lexicons"  # Folder of the workspace for the user's lexicons.
_DIRECTORY_AT_ONCE = 10  # Requests in flight to the PLC directory.


@dataclass(frozen=True, slots=True)
class Kit:
    """A registry, and an HTTP client with a gate."""

    config: PdsConfig
    workspace: Path
    registry: Registry
    http: Getter
    gate: Gate
    clock: Clock
    metrics: CrawlMetrics

    @property
    def finder(self) -> Finder:
        return Finder(self.registry, self.http, self.gate, self.clock)


@asynccontextmanager
async def open_kit(
    config: PdsConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Kit]:
    """Raises NotReady, TablesError."""
    agent = agent_for(config.contact, allow_private=config.allow_private_hosts)
    gate = Gate(clock, manners(config))
    directory = wanted(config, workspace).directory
    polite = replace(manners(config), rate=config.plc_rps, concurrency=_DIRECTORY_AT_ONCE)
    gate.treat(lane_of(directory), polite)
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(opened_registry(config, workspace))
        guard = Guard(allow_private=config.allow_private_hosts)
        turns = traced_turns(gate, metrics.ways)
        http = await stack.enter_async_context(Http(turns, clock, agent, guard=guard))
        metered = MeteredHttp(http, metrics.http)
        yield Kit(config, workspace, registry, metered, gate, clock, metrics)


async def scan_parts(kit: Kit) -> ScanParts:
    """The parts of scans, with their record tables."""
    config, private = kit.config, kit.config.allow_private_hosts
    tables = Scanned(kit.registry.db)
    await tables.migrate()
    directory = wanted(config, kit.workspace).directory
    lexicons = load_lexicons(kit.workspace / LEXICONS)
    routes = Routes(config.collections, lexicons, config.index_tags, config.mentions)
    return ScanParts(
        http=kit.http,
        gate=kit.gate,
        identities=Identities(
            lambda did: resolve(kit.http, did, directory, allow_private=private), kit.clock
        ),
        tables=tables,
        routes=routes,
        clock=kit.clock,
        limits=ScanLimits(
            records=config.max_records_per_pds,
            account_records=config.max_records_per_account,
        ),
        meter=PdsMeter(kit.metrics, routes.labels),
        allow_private=private,
    )


@asynccontextmanager
async def open_parts(
    config: PdsConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Parts[SliceEnd]]:
    """Yields the parts of a crawl, and closes them. Raises NotReady, TablesError."""
    async with open_kit(config, workspace, clock, metrics) as kit, crawl_parts(kit) as parts:
        yield parts


@asynccontextmanager
async def crawl_parts(kit: Kit) -> AsyncIterator[Parts[SliceEnd]]:
    config, workspace, clock = kit.config, kit.workspace, kit.clock
    scans = await scan_parts(kit)
    # We hold the lock of the workspace, so claims in its name belong to dead processes.
    name = _name(workspace, clock)
    await kit.registry.release_all(name, clock.now())
    await release_dead(kit.registry, state_folder(workspace), clock.now())
    rules = ClaimRules(
        f"{name}{owner(clock)}", lease(config), gap(config), config.max_tasks, config.follow
    )
    store = RegistryStore(
        kit.registry,
        clock,
        rules,
        lambda pds, owner: ScanSlice(scans, pds, owner, clock.now() + config.scan_timeout),
        StoreHooks(kit.gate.parked, lambda stats: show_hosts(kit.metrics, stats.by_status)),
    )
    discovered = asyncio.Event()
    sources = wanted(config, workspace)
    rounds = Rounds(kit.finder, sources, config.discovery_interval, discovered)
    which = Which(config.skip_relay_connected, scope=scans.routes.scope.digest)
    plan = BatchPlan(config.batch, config.scan_interval, config.once, which, config.concurrency)
    source = DueSource(store, clock, plan, discovered, rounds.once if config.once else _nothing)
    parts = Parts(
        Feed(source, None),
        store,
        ScanHandler(store.work),
        ScanSink(store.work),
        kit.gate,
        clock,
        enough=store.enough,
        companions=[store.steer, *([rounds.run] if sources.any and not config.once else [])],
        outlook=store.outlook,
        ledger=store,
    )
    try:
        if not config.follow:
            yield parts
            return
        ground = LookGround(kit.registry, store, scans, kit.metrics)
        async with following(config, ground, sources.relays) as follower:
            follower.scheduler.on_rescan = discovered.set
            yield follower.beside(parts, source)
    finally:
        await store.close()


async def _nothing() -> None:
    return None


def _name(workspace: Path, clock: Clock) -> str:
    """The name of crawls in this workspace on this machine; a copy of it has another name."""
    file = state_folder(workspace) / _NAME
    if not file.exists():
        make_directory(file.parent)
        draft = file.with_suffix(".new")
        draft.write_text(f"crawl {owner(clock)} ")
        draft.replace(
            file
        )  # Written atomically: after a kill an empty name would match every process.
    return f"{file.read_text()}{socket.gethostname()} "


def owner(clock: Clock) -> str:
    """A unique name, also after a restart of this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{clock.now():.6f}"
