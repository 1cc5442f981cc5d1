"""This crawl as one of many shards: fenced state in Redis, results in parts of a shared archive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from trawlnet.archive.parts import BLOCKS
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.repos.accounts.rates import PdsRates, unknown
from trawlnet.crawlers.repos.accounts.shared_residents import SharedResidents
from trawlnet.crawlers.repos.build import ArchiveShelf, CrawlBase, assembled, open_mirror
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.config import ReposConfig, limits, manners
from trawlnet.crawlers.repos.settings import CrawlSettings, settings_of
from trawlnet.crawlers.repos.sink import Told
from trawlnet.crawlers.repos.visiting.visit import PackedRepo
from trawlnet.crawlers.share import Opened, Share, ShareSource, check_places
from trawlnet.engine.crawl import Limits
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.repos import RepoMeter
from trawlnet.storage.objects import open_objects
from trawlnet.storage.part_sink import PartLimits, PartSink
from trawlnet.stores.fence import Fence
from trawlnet.stores.lmdb.notes import open_notes
from trawlnet.stores.redis.work.store import RedisStore

_UNSETTLED = 20_000  # Repositories that wait for their part; their memory is bounded apart.


class SharedSink:
    """Blocks to parts; to be told of is only what is durable."""

    def __init__(self, parts: PartSink, meter: RepoMeter) -> None:
        self._parts = parts
        self._meter = meter
        self.told: list[Told] = []

    def current_segment(self) -> int | None:
        return None  # Whoever composes segments numbers them.

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        fetched = [one for _, items in batch for one in items if isinstance(one, PackedRepo)]
        await self._parts.write(
            [(task, [one.made.block for one in _of(items)]) for task, items in batch]
        )
        for one in fetched:
            one.ticket.close()
            self._meter.archived(one.made.records, len(one.made.block))
        if fetched:
            for tell in self.told:
                await tell(len(fetched), sum(len(one.made.block) for one in fetched))


def _of(items: Sequence[Any]) -> list[PackedRepo]:
    return [one for one in items if isinstance(one, PackedRepo)]


@asynccontextmanager
async def open_shard(
    config: ReposConfig, share: Share, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Opened]:
    """The parts of one shard, let go of at the end. Raises NotReady."""
    check_shareable(config)
    settings = _own_part(settings_of(config), share)
    async with AsyncExitStack() as stack:
        mirror = await open_mirror(config, share.scratch, stack, share.buckets)
        objects = open_objects(config.archive, share.s3)
        limit = PartLimits(config.part_size, config.part_seconds)
        sink = PartSink(objects, share.token, clock, limit, share.may_put, BLOCKS)
        stack.push_async_callback(sink.close)
        store = await RedisStore.open(
            config.redis_address,
            owner=share.token,
            fence=Fence(share.token, share.buckets, sink),
        )
        stack.push_async_callback(store.close)
        notes = open_notes(share.scratch / "notes")
        stack.callback(notes.close)
        meter = RepoMeter(metrics)
        # What is archived is remembered in Redis: there is no archive here to look at.
        archived = ArchiveCatalogue(notes, share.scratch / "archive", clock)
        stack.callback(archived.close)
        gate = Gate(clock, unknown(config), barred_until=share.barred_until)
        rate = config.plc_rps * directory_part(share.shards, share.owns(lane_of(settings.plc)))
        gate.treat(lane_of(settings.plc), replace(manners(config), rate=rate))
        residents = SharedResidents(store, share, clock)
        rates = await PdsRates.open(residents, gate, config)
        frame = CrawlBase(
            settings,
            mirror,
            store,
            ArchiveShelf(notes, SharedSink(sink, meter), archived, meter),
            gate,
            share.scratch,
            rates,
            shared=lambda source: ShareSource(source, share.run, share.owns),
        )
        parts = await assembled(config, frame, clock, metrics, stack)
        watching = partial(residents.watch, heed=rates.heed)
        yield Opened(
            replace(parts, owns=share.owns, companions=(watching,)),
            _limits(config, share.shards),
            config.workers,
            sink.hurry,
            lambda: {"parts": sink.parts_put, "bytes": sink.bytes_put},
        )


def check_shareable(config: ReposConfig) -> None:
    """Raises NotReady for what a fleet cannot do."""
    check_places(config.redis_address, config.archive)
    if config.update:
        raise NotReady(
            "--update compares with the revisions in an archive beside the crawl, and a fleet has "
            "none there: it archives each repository once",
            "leave it out to fetch what is new, or give the fleet a new archive and a new Redis "
            "database; one machine can update its own archive",
        )
    if config.chosen_source == "plc" and not config.clickhouse_address:
        raise NotReady(
            "a mirror of the directory that all shards can read is on a ClickHouse server",
            "name one: --clickhouse-address HOST:PORT; or ask a relay: --relay URL",
        )


def directory_part(shards: int, owner: bool) -> float:
    """How much of the directory's rate one shard may use. Its owner visits it; the others ask it
    now and then about accounts that moved. All together never ask more than one alone may."""
    if shards == 1:
        return 1.0
    return 0.5 if owner else 0.5 / (shards - 1)


def _own_part(settings: CrawlSettings, share: Share) -> CrawlSettings:
    return replace(
        settings, relays=[relay for relay in settings.relays if share.owns(lane_of(relay))]
    )


def _limits(config: ReposConfig, shards: int) -> Limits:
    """Open tasks are counted over all shards, and so are their bounds. Whether the crawl is done
    only all shards together can tell: each one stays."""
    one = limits(config)
    return replace(
        one,
        follow=True,
        unsettled=_UNSETTLED,
        high_water=one.high_water * shards,
        highest_water=one.highest_water * shards,
        most_seconds=None,  # The command's to watch: a shard has many terms.
    )
