"""Replays one segment in a process on any node, and again if that process dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from trawlnet.archive.reader import ArchiveChanged, Segment, open_segment
from trawlnet.archive.remote import remote
from trawlnet.crawlers.errors import Unanswered
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import ReplayCounts, SegmentReplay, name_of
from trawlnet.fleet.ray import ProcessDied
from trawlnet.storage.s3 import SCHEME
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.server import ClickHouseServer

log = logging.getLogger(__name__)

_TRIES: Final = 10  # Processes that may die before the segment is given up.


@dataclass(frozen=True, slots=True)
class SegmentJob:
    """The arguments of a process. They are sent to it; secrets are left out of their repr."""

    place: str  # A path that is the same on every node, or a URL.
    name: str
    dead: Sequence[int]  # Offsets of blocks that do not count.
    globs: Sequence[str]
    server: ClickHouseServer
    s3: Mapping[str, str] = field(repr=False)


class Tasks(Protocol):
    async def run(self, work: Any, job: SegmentJob) -> ReplayCounts:
        """Raises ProcessDied, or what `work` raised."""


@dataclass(frozen=True, slots=True)
class FleetReplay:
    """`await fleet_replay(segment, dead)`; into the tables of a server, which many can share."""

    tasks: Tasks
    globs: Sequence[str]
    server: ClickHouseServer
    s3: Mapping[str, str] = field(repr=False)

    async def __call__(self, segment: Segment, dead: frozenset[int]) -> ReplayCounts:
        job = SegmentJob(
            str(segment.path), name_of(segment), sorted(dead), self.globs, self.server, self.s3
        )
        for tries in range(1, _TRIES + 1):
            try:
                part = await self.tasks.run(replay_segment, job)
            except ProcessDied as death:
                fields = {"segment": job.name, "error": str(death)}
                log.warning("segment retried", extra=fields)
                continue
            part.tries = tries
            part.damage = [replace(one, path=segment.path) for one in part.damage]
            return part
        raise Unanswered(
            f"{_TRIES} processes died over {segment.path}",
            "see Ray's logs: has a node too little memory? Then run the same command again",
        )


def replay_segment(job: SegmentJob) -> ReplayCounts:
    """Runs in a process of its own, perhaps on another machine."""
    return asyncio.run(_replayed(job))


async def _replayed(job: SegmentJob) -> ReplayCounts:
    remotely = job.place.startswith(SCHEME)
    segment = open_segment(remote(job.place, job.s3) if remotely else Path(job.place))
    if segment.footer is not None and name_of(segment) != job.name:
        raise ArchiveChanged(f"{job.place} was replaced while it was read")
    async with opened(job.server) as tables:
        replaying = SegmentReplay(tables, CollectionFilter(job.globs), asyncio.Event())
        part = await replaying.run(segment, frozenset(job.dead))
    # The place of an object store has open connections and cannot be sent; the sender has it.
    part.damage = [replace(one, path=Path(job.name)) for one in part.damage]
    return part
