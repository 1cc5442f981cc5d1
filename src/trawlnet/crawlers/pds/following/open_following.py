"""The parts of a crawl of PDSes, with those that follow firehoses beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from trawlnet.crawlers.atproto.streams.joined_source import JoinedSource
from trawlnet.crawlers.atproto.streams.subscription import Dialler
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.following.firehoses import Firehoses
from trawlnet.crawlers.pds.following.home_finder import HomeFinder
from trawlnet.crawlers.pds.following.live_row import live_row
from trawlnet.crawlers.pds.following.look_scheduler import LookLimits, LookScheduler
from trawlnet.crawlers.pds.following.stream_reader import HintReader
from trawlnet.crawlers.pds.scanning.ending import SliceEnd, TablesAway
from trawlnet.crawlers.pds.scanning.parts import ScanParts
from trawlnet.crawlers.pds.schedule import RegistryStore
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Parts
from trawlnet.engine.ports import Source
from trawlnet.net.client.socket_ends import SocketLimits
from trawlnet.net.guard import Guard
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.pds import LookFigures, LookMeter
from trawlnet.tables.registry.looks import RegistryLooks
from trawlnet.tables.registry.registry import Registry

_MEMORY = 64 << 20  # Bytes of messages that wait, of all firehoses together.
_LEAST_SHARE = 64 << 10  # Bytes, of one.
_METER_EVERY = 1.0  # Seconds.

Companion = Callable[[Control], Any]


@dataclass(slots=True)
class PdsFollower:
    """Reads firehoses, finds out where accounts live, and has them looked at."""

    firehoses: Firehoses
    homes: HomeFinder
    scheduler: LookScheduler
    meter: LookMeter
    companions: Sequence[Companion]

    def beside(self, parts: Parts[SliceEnd], source: Source) -> Parts[SliceEnd]:
        """The parts of a crawl that also follows."""
        joined = JoinedSource(source, self.firehoses.began)
        companions = [*parts.companions, *self.companions, self.measure]
        return replace(parts, feed=Feed(joined, None), companions=companions, facts=self.facts)

    def facts(self) -> Mapping[str, Any]:
        """`live` of `status`."""
        reader, scheduler = self.firehoses.reader, self.scheduler
        figures, troubles = reader.figures, self.firehoses.troubles()
        row = live_row(
            reader.cursors, self.firehoses.behind(), scheduler.waiting, scheduler.waiting_rescans
        )
        row |= {
            "connected": self.firehoses.connected,
            "commits": figures.commits,
            "rejected": dict(figures.refused),
            "gaps": figures.gaps,
            "looks_asked": figures.looks_asked,
            "looks_made": scheduler.made,
            "rescans": scheduler.rescans,
            "overflowed": figures.overflowed,
            "lost": self.homes.lost,
        }
        return {"live": row | ({"troubles": troubles} if troubles else {})}

    async def measure(self, control: Control) -> None:
        reader, scheduler = self.firehoses.reader, self.scheduler
        while True:
            figures = LookFigures(
                self.firehoses.behind(),
                reader.figures.commits,
                reader.figures.looks_asked,
                scheduler.made,
                scheduler.waiting,
            )
            self.meter.show(figures)
            await asyncio.sleep(_METER_EVERY)


@dataclass(frozen=True, slots=True)
class LookGround:
    """What a crawl has that following needs as well."""

    registry: Registry
    store: RegistryStore
    scans: ScanParts
    metrics: CrawlMetrics


@asynccontextmanager
async def following(
    config: PdsConfig, ground: LookGround, relays: Sequence[str]
) -> AsyncIterator[PdsFollower]:
    """Without relays the firehoses of known PDSes are read."""
    registry, store, scans = ground.registry, ground.store, ground.scans
    looks, clock = RegistryLooks(registry.db, config.pending_looks), scans.clock
    reader = HintReader(looks, scans.routes.wants, clock)
    await reader.open()
    limits = LookLimits(
        config.look_pause, config.looks_per_minute, config.scan_timeout, config.rescan_pause
    )
    scheduler = LookScheduler(looks, registry, store, scans, limits)
    homes = HomeFinder(looks, registry, store, scans.identities, clock)
    reader.on_looks = homes.on_found = scheduler.wake
    dialler = _dialler(config, scans, len(relays) or config.streams)
    firehoses = Firehoses(reader, dialler, relays, from_start=config.from_start)
    read = partial(firehoses.run_pdses, looks=looks, store=store, most=config.streams)
    follower = PdsFollower(
        firehoses,
        homes,
        scheduler,
        LookMeter(ground.metrics),
        [
            reader.run,
            scheduler.run,
            homes.in_directory,
            homes.elsewhere,
            firehoses.run if relays else read,
        ],
    )
    try:
        yield follower
    finally:
        with suppress(*TablesAway):
            await reader.save_positions()


def _dialler(config: PdsConfig, scans: ScanParts, streams: int) -> Dialler:
    share = max(_LEAST_SHARE, _MEMORY // (2 * streams))
    return Dialler(
        scans.gate,
        Guard(allow_private=config.allow_private_hosts),
        agent_for(config.contact, allow_private=config.allow_private_hosts),
        scans.clock,
        SocketLimits(waiting=share),
        share,
    )
