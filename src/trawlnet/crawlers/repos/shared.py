"""This crawl as one of many shards: fenced state in Redis, results in parts of a shared archive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from trawlnet.archive.parts import BLOCKS
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.repos.accounts.rates import PdsRates, unknown
from trawlnet.crawlers.repos.accounts.residents import ENOUGH, digest_of
from trawlnet.crawlers.repos.build import ArchiveShelf, CrawlBase, assembled, open_mirror
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.crawlers.repos.config import ReposConfig, limits, manners
from trawlnet.crawlers.repos.settings import CrawlSettings, settings_of
from trawlnet.crawlers.repos.sink import OnWritten
from trawlnet.crawlers.repos.visiting.visit import PackedRepo
from trawlnet.crawlers.share import Opened, Share, ShareSource, check_places
from trawlnet.engine.control import Control
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
from trawlnet.stores.redis.scripts import SCAN_COUNT
from trawlnet.stores.redis.work.store import RedisStore

_UNSETTLED = 20_000  # Repositories that wait for their part; their memory is bounded apart.


class SharedSink:
    """Blocks to parts; to be told of is only what is durable."""

    def __init__(self, parts: PartSink, meter: RepoMeter) -> None:
        self._parts = parts
        self._meter = meter
        self.listeners: list[OnWritten] = []

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
            for tell in self.listeners:
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


_LOOK_EVERY: Final = 5.0  # Seconds between two looks at what others have counted on our lanes.
_LANES_AT_ONCE: Final = 500
_DIDS_AT_ONCE: Final = 2000  # In one script, so that no script keeps other clients waiting long.


class SharedResidents:
    """Beside the keys of the store: a set of digests for each lane, and a hash of their sizes."""

    def __init__(self, store: RedisStore, share: Share, clock: Clock) -> None:
        self._store = store
        self._owns = share.owns
        self._resized = f"resized:{share.token}"
        self._clock = clock
        # Lanes that have enough are not asked about again.
        self._enough: set[str] = set()

    async def known(self) -> Mapping[str, int]:
        """What is known of our lanes."""
        found: dict[str, int] = {}
        position: object = 0
        while True:
            position, rows = await self._store.ask(
                "HSCAN", "accounts", position, "COUNT", SCAN_COUNT
            )
            lanes = {lane.decode(): int(count) for lane, count in rows.items()}
            found |= {lane: count for lane, count in lanes.items() if self._owns(lane)}
            if int(str(position)) == 0:
                return found

    async def add(self, found: Mapping[str, Collection[str]]) -> Mapping[str, int]:
        counts = dict.fromkeys(found, ENOUGH)
        rows = [
            (lane, [digest_of(did).hex() for did in list(dids)[start : start + _DIDS_AT_ONCE]])
            for lane, dids in found.items()
            if lane not in self._enough
            # Also for a page that names nobody: else its lane would pass for one that has enough.
            for start in range(0, len(dids) or 1, _DIDS_AT_ONCE)
        ]
        for start in range(0, len(rows), _LANES_AT_ONCE):
            some = rows[start : start + _LANES_AT_ONCE]
            for (lane, _), count in zip(some, await self._reside(some), strict=True):
                counts[lane] = count
                if count >= ENOUGH:
                    self._enough.add(lane)
        return counts

    async def begin(self, lane: str | None = None) -> None:
        lanes = [lane] if lane is not None else list(await self.known())
        self._enough.difference_update(lanes)
        for one in lanes:
            await self._store.run("vacate", one)

    async def watch(self, control: Control, heed: Callable[[Mapping[str, int]], None]) -> None:
        """A companion of the crawl: other shards find accounts on our lanes."""
        while True:
            await self._clock.sleep(_LOOK_EVERY)
            while lanes := await self._store.ask("SPOP", self._resized, _LANES_AT_ONCE):
                counts = await self._store.ask("HMGET", "accounts", *lanes)
                pairs = zip(lanes, counts, strict=True)
                heed({lane.decode(): int(count) for lane, count in pairs if count is not None})

    async def _reside(self, rows: Sequence[tuple[str, Sequence[str]]]) -> Sequence[int]:
        counts: Sequence[int] = await self._store.run("reside", ENOUGH, rows)
        return counts
