"""From config and workspace to the parts of a crawl."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trawlnet.archive.format.content import DROP_REASONS
from trawlnet.archive.sink import SegmentSink
from trawlnet.crawlers.metered import MeteredHttp
from trawlnet.crawlers.repos.accounts.identity import DocumentResolver, directory
from trawlnet.crawlers.repos.accounts.locator import AccountLocator, LookupSlots
from trawlnet.crawlers.repos.accounts.rates import PdsRates
from trawlnet.crawlers.repos.accounts.recheck import Rescue, is_under_way, reopen, stranded
from trawlnet.crawlers.repos.accounts.residents import NotedResidents
from trawlnet.crawlers.repos.accounts.visit_planner import VisitPlanner
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.config import (
    LiveTablesKey,
    ReposConfig,
    SourceKind,
    manners,
    wants_live_tables,
)
from trawlnet.crawlers.repos.events.event_log import EventReader
from trawlnet.crawlers.repos.handler import ReposHandler
from trawlnet.crawlers.repos.ledger import STORE
from trawlnet.crawlers.repos.mirror import TableMirror
from trawlnet.crawlers.repos.replay.live_tables import LiveTables
from trawlnet.crawlers.repos.settings import (
    CrawlSettings,
    follow_settings,
    host_rules,
    not_mirrored,
    plc_of,
    settings_of,
)
from trawlnet.crawlers.repos.sink import ArchiveSink
from trawlnet.crawlers.repos.sources import FileSource, NoSource, PlcSource, RelaySource
from trawlnet.crawlers.repos.visiting.bodies import Bodies
from trawlnet.crawlers.repos.visiting.heap import steady_heap
from trawlnet.crawlers.repos.visiting.memory import MemoryBudget
from trawlnet.crawlers.repos.visiting.packing import pack_options, read_car, read_cars
from trawlnet.crawlers.repos.visiting.spill import FOLDER, Spills
from trawlnet.crawlers.repos.visiting.visit import Visitor
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Parts
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock, Source, Store, Work
from trawlnet.engine.threads import Threads, giving_way
from trawlnet.loading import load
from trawlnet.net.client.answer import RequestLimits
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http, Turns
from trawlnet.net.lane import lane_of
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.repos import RepoGauges, RepoMeter
from trawlnet.observe.traces.wrappers import traced_turns
from trawlnet.stores.lmdb.notes import LmdbNotes, open_notes
from trawlnet.stores.open import open_store
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Tables

if TYPE_CHECKING:
    from trawlnet.crawlers.repos.shared import SharedSink
    from trawlnet.stores.redis.archive import ArchiveKeys

ARCHIVE = "archive"
_NOTES = "notes"
_AT_REST = 16  # One part in so many of the memory is kept for the next bodies.
_LEAST_THREADS = 2  # To read repositories: while one waits for the interpreter the other goes on.
_ASKING_SHARE = 4  # One worker in so many may wait for a directory in the middle of a visit.
_AT_A_TIME = 8  # Repositories that a thread reads before it tells of them, if so many wait.
_MOST_THREADS = 4  # More than the loop can feed, and each may hold a repository.


@asynccontextmanager
async def open_parts(
    config: ReposConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Parts]:
    """Everything that a crawl needs, let go of at the end. Raises NotReady."""
    async with _open(config, settings_of(config), workspace, clock, metrics) as parts:
        yield parts


@asynccontextmanager
async def open_follow(
    config: ReposConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Parts]:
    """The same for a command that only follows firehoses. Raises NotReady."""
    config = config.model_copy(update={"follow": True, "source": SourceKind.RELAY})
    async with _open(config, follow_settings(config), workspace, clock, metrics) as parts:
        yield parts


@asynccontextmanager
async def _open(
    config: ReposConfig,
    settings: CrawlSettings,
    workspace: Path,
    clock: Clock,
    metrics: CrawlMetrics,
) -> AsyncIterator[Parts]:
    async with AsyncExitStack() as stack:
        tables = await _open_tables(config, workspace, stack)
        mirror = await _mirror_in(tables, config)
        store = await _open_store(config, workspace, stack)
        shelf = await _open_shelf(config, workspace, clock, metrics, stack)
        gate = Gate(clock, manners(config))
        gate.treat(lane_of(settings.plc), replace(manners(config), rate=config.plc_rps))
        residents = NotedResidents(shelf.notes)
        stack.callback(residents.close)
        rates = await PdsRates.open(residents, gate, config)
        if resuming := await is_under_way(store):
            await rates.doubt(store, [lane_of(one) for one in (settings.plc, *settings.relays)])
        frame = CrawlBase(settings, mirror, store, shelf, gate, workspace, rates, resuming)
        parts = await assembled(config, frame, clock, metrics, stack)
        if not resuming:
            await begin_sweep(config, store, mirror, clock)
        if config.follow:
            # Seldom needed, and a seventh of the time that a crawl's imports take.
            following = load("trawlnet.crawlers.repos.following.open_following")
            ground = following.FollowGround(
                shelf.archived, store, gate, rates, workspace, tables if mirror else None
            )
            parts = await following.followed(config, parts, ground, metrics, stack)
            if tables is not None and config.live_tables is not LiveTablesKey.OFF:
                live = LiveTables(tables, EventReader(workspace), workspace / ARCHIVE, clock)
                parts = _with_live_tables(parts, live)
        yield _at_work(parts, workspace) if config.redis_address else parts


async def _open_tables(
    config: ReposConfig, workspace: Path, stack: AsyncExitStack
) -> Tables | None:
    """Those that a mirror is in, and those that are kept current: the same, since a process can
    open embedded tables only once. None where there are none, and none are to be made."""
    where = tables_place(config, workspace)
    is_made = not isinstance(where, Path) or where.exists()
    if not is_made and not (config.follow and wants_live_tables(config)):
        return None
    return await stack.enter_async_context(opened(where))


def _with_live_tables(parts: Parts, live: LiveTables) -> Parts:
    def facts() -> Mapping[str, Any]:
        found = dict(parts.facts())
        return found | {"live": {**found.get("live", {}), "tables": live.facts()}}

    return replace(parts, facts=facts, companions=(*parts.companions, live.run))


async def begin_sweep(
    config: ReposConfig, store: Store, mirror: TableMirror | None, clock: Clock
) -> None:
    """Ask again what may have passed, and look for accounts on dead hosts where they live now."""
    private = config.allow_private_hosts
    accounts = await stranded(store)
    await reopen(store, clock.now() - config.recheck_inactive)
    directory_of = partial(directory, plc=plc_of(config), allow_private=private)
    await Rescue(store, mirror, directory_of, clock, private)(accounts)


@dataclass(frozen=True, slots=True)
class CrawlBase:
    """What a crawl stands on: another for one that has all to itself than for one of many."""

    settings: CrawlSettings
    mirror: TableMirror | None
    store: Store
    shelf: ArchiveShelf
    gate: Gate
    scratch: Path  # A folder for what need not outlive the crawl.
    rates: PdsRates
    resuming: bool = False  # A sweep that was begun goes on; else a new one begins.
    shared: Callable[[Source], Source] = lambda source: source  # Only this shard's part of it.


async def assembled(
    config: ReposConfig,
    frame: CrawlBase,
    clock: Clock,
    metrics: CrawlMetrics,
    stack: AsyncExitStack,
) -> Parts:
    """The parts of a crawl around what it stands on."""
    rules, shelf, mirror, rates = host_rules(config), frame.shelf, frame.mirror, frame.rates
    turns = traced_turns(frame.gate, metrics.ways)
    http = await stack.enter_async_context(_http(config, turns, clock, frame.settings.agent))
    metered = MeteredHttp(http, metrics.http)
    plc = frame.settings.plc
    resolver = DocumentResolver(metered, plc, allow_private=config.allow_private_hosts)
    keys = _redis_keys(frame.store, shelf.sink) if config.redis_address else None
    census = VisitPlanner(
        shelf.archived,
        resolver,
        mirror,
        rules.skip,
        config.update,
        clock,
        keys.forget_done if keys else None,
    )
    steady_heap()
    budget = MemoryBudget(config.memory_limit)
    spills = Spills(frame.scratch / FOLDER, shelf.meter.spilled)
    stack.callback(spills.close)
    threads = reading_threads(os.cpu_count())
    pool = Threads(threads, "repo", _AT_A_TIME, {read_car: read_cars})
    # Waited for: no native code is to be at work when the interpreter ends.
    stack.callback(pool.shutdown)
    # After the threads: the loop gives way to them.
    stack.enter_context(giving_way())
    visitor = Visitor(
        metered,
        AccountLocator(
            resolver,
            mirror,
            config.recheck_inactive,
            clock,
            frame.gate,
            LookupSlots(max(1, config.workers // _ASKING_SHARE), clock),
        ),
        rates,
        shelf.archived,
        budget,
        spills,
        Bodies(config.memory_limit // _AT_REST),
        pool,
        pack_options(config),
        _repo_limits(config),
        clock,
        updates=config.update or config.follow,
    )
    handler = ReposHandler(metered, rules, census, visitor, rates, shelf.meter, clock)
    source = _source(frame, census, rates)
    shelf.meter.watched = RepoGauges(
        frame.gate, lambda: rates.pdses, census.left_out, _DROPS, lambda: _in_memory(budget)
    )
    feed = Feed(frame.shared(source), frame.store)
    parts = Parts(feed, frame.store, handler, shelf.sink, frame.gate, clock, ledger=frame.store)
    if isinstance(source, PlcSource):
        return replace(parts, share_named=source.share_named)
    return parts


def _at_work(parts: Parts, workspace: Path) -> Parts:
    """With word of it in Redis, where the store is there: other machines look."""
    keys = _keys_in(parts.store, lambda: None)
    if keys is None:
        return parts
    who = f"{socket.gethostname()}, pid {os.getpid()}, in {workspace.resolve()}"

    async def tell(control: Control) -> None:
        await keys.at_work(who, parts.clock)

    return replace(parts, companions=(*parts.companions, tell))


def reading_threads(cores: int | None) -> int:
    return min(max(_LEAST_THREADS, cores or 0), _MOST_THREADS)


_DROPS = tuple(map(str, DROP_REASONS))


def _in_memory(budget: MemoryBudget) -> Mapping[str, int]:
    return {"body": budget.bodies, "work": budget.work}


async def _open_store(config: ReposConfig, workspace: Path, stack: AsyncExitStack) -> Store:
    store = await open_store(
        config.redis_address or workspace / "state" / "repos" / STORE,
        owner=_owner(workspace),
        # The archive itself tells what is done. In Redis others want to read it, too.
        remember_done=bool(config.redis_address),
    )
    stack.push_async_callback(store.close)
    if config.redis_address:
        bind = load("trawlnet.crawlers.binding:bind")  # Needs Redis, an extra.
        await bind(store, workspace, "repos")
    return store


@dataclass(frozen=True, slots=True)
class ArchiveShelf:
    """The archive, and what is noted about it."""

    notes: LmdbNotes
    sink: ArchiveSink | SharedSink
    archived: ArchiveCatalogue
    meter: RepoMeter


async def _open_shelf(
    config: ReposConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics, stack: AsyncExitStack
) -> ArchiveShelf:
    folder, meter = workspace / ARCHIVE, RepoMeter(metrics)
    segments = await SegmentSink.open(folder, clock.now, config.segment_size)
    stack.push_async_callback(segments.close)
    notes = open_notes(workspace / "state" / "repos" / _NOTES)
    stack.callback(notes.close)
    archived = ArchiveCatalogue(notes, folder, clock)
    stack.callback(archived.close)
    return ArchiveShelf(notes, ArchiveSink(folder, segments, archived, meter), archived, meter)


async def open_mirror(
    config: ReposConfig,
    workspace: Path,
    stack: AsyncExitStack,
    buckets: Collection[int] = (),
) -> TableMirror | None:
    """None where nothing was mirrored: then directories are asked. With buckets it pages through
    accounts on lanes of these only."""
    where, tables = tables_place(config, workspace), None
    if not isinstance(where, Path) or where.exists():
        tables = await stack.enter_async_context(opened(where))
    return await _mirror_in(tables, config, buckets)


async def _mirror_in(
    tables: Tables | None, config: ReposConfig, buckets: Collection[int] = ()
) -> TableMirror | None:
    if tables is not None:
        mirror = TableMirror(tables, config.page_size, buckets)
        if not await mirror.is_empty():
            return mirror
    if config.chosen_source is SourceKind.PLC:
        raise not_mirrored()
    return None


def _keys_in(store: Work, segment: Callable[[], int | None]) -> ArchiveKeys | None:
    archive_keys = load("trawlnet.stores.redis.archive:archive_keys")
    keys: ArchiveKeys | None = archive_keys(store, segment)
    return keys


def _redis_keys(store: Store, sink: ArchiveSink | SharedSink) -> ArchiveKeys | None:
    """None unless the store is in Redis, for others to read."""
    keys = _keys_in(store, sink.current_segment)
    if keys is not None:
        sink.listeners.append(keys.tell)
    return keys


def _source(frame: CrawlBase, census: VisitPlanner, rates: PdsRates) -> Source:
    settings, mirror, shelf = frame.settings, frame.mirror, frame.shelf
    if settings.dids is not None:
        return FileSource(settings.dids, settings.page_size, census, rates, shelf.meter)
    if settings.relays:
        return RelaySource(settings.relays, census, resuming=frame.resuming)
    if mirror is None or settings.kind is SourceKind.RELAY:
        return NoSource()
    return PlcSource(mirror, census, shelf.archived, rates, shelf.meter)


def _owner(workspace: Path) -> str:
    """Known across restarts, so that what a killed process had leased is free at once."""
    return f"{socket.gethostname()}:{workspace.resolve()}"


def _http(config: ReposConfig, turns: Turns, clock: Clock, agent: str) -> Http:
    return Http(
        turns,
        clock,
        agent,
        guard=Guard(allow_private=config.allow_private_hosts),
        limits=_repo_limits(config),
    )


def _repo_limits(config: ReposConfig) -> RequestLimits:
    return RequestLimits(
        total=config.request_timeout,
        connect=config.connect_timeout,
        wire=config.max_repo_size,
        inflated=config.max_repo_size,
    )
