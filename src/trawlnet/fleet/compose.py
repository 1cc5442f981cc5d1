"""Parts become segments, and segments are listed: the archive as everybody reads it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trawlnet.archive.parts import FOLDER, Kept, kept_of, path_of, segment_pieces
from trawlnet.archive.reader import MANIFEST, segment_name
from trawlnet.engine.ports import Clock
from trawlnet.storage.errors import SinkError
from trawlnet.storage.objects import Objects
from trawlnet.stores.redis.fleet.shards import FleetKeys

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Composer:
    """Any number may be at work: of two that take the same part, the second is refused."""

    keys: FleetKeys
    objects: Objects
    clock: Clock
    segment_size: int

    async def compose(self, *, everything: bool) -> int:
        """Make segments of parts that can get no more keys, as far as one is full; with
        `everything` the rest, too. Returns how many."""
        await self.restate()
        sizes = await asyncio.to_thread(self._part_sizes)
        ready = await self.keys.composable()
        made = 0
        for group in groups(ready, sizes, self.segment_size, everything):
            made += await self._compose_one(group, sizes)
        if everything:
            await self._refuse_lost_parts()
        return made

    async def _refuse_lost_parts(self) -> None:
        """Now all that can be composed is; what Redis still counts must be there."""
        counted = await self.keys.composable()  # Asked first: a part is put before it counts.
        there = await asyncio.to_thread(self._part_sizes)
        if lost := [part for part in counted if part not in there]:
            repos = len(await self.keys.placed(lost[0]))
            raise SinkError(
                f"{path_of(lost[0])} is gone from {self.objects.url}: {repos:,} repositories that "
                "count as archived were in it",
                "put it back as it was written, or begin anew: trawlnet repos reset",
            )

    async def restate(self) -> None:
        """List every segment that is published, and drop what its composer left behind."""
        known = await asyncio.to_thread(self.objects.sizes, MANIFEST)
        for line in await self.keys.manifest():
            if _line_name(line["segment"]).rpartition("/")[2] not in known:
                await asyncio.to_thread(self._list, line)

    async def sweep(self) -> int:
        """Delete parts that are in a segment already, and those of which nothing was settled and
        nothing can be. Returns how many."""
        there = await asyncio.to_thread(self._part_sizes)
        owners = await self.keys.owners()
        counted = set(await self.keys.parts())
        composed = {part for line in await self.keys.manifest() for part in line["parts"]}
        orphans = [
            part
            for part in there
            if part in composed or not (part in counted or part.partition(".")[0] in owners)
        ]
        await asyncio.to_thread(self.objects.delete, map(path_of, orphans))
        return len(orphans)

    async def _compose_one(self, parts: Sequence[str], sizes: Mapping[str, int]) -> int:
        kept = []
        for part in parts:
            dids = await self.keys.placed(part)
            kept.append(await asyncio.to_thread(kept_of, self.objects, part, sizes[part], dids))
            if len(kept[-1].entries) < len(dids):
                raise _missing(part, kept[-1], dids)
        number = await self.keys.next_segment()
        line: dict[str, Any] = {
            "segment": segment_name(number),
            "repos": sum(len(one.entries) for one in kept),
            "parts": list(parts),
        }
        await asyncio.to_thread(self._put_segment, segment_name(number), kept)
        if not await self.keys.publish(parts, line):
            await asyncio.to_thread(self.objects.delete, [line["segment"]])
            return 0
        await asyncio.to_thread(self._list, line)
        told = {"segment": line["segment"], "repos": line["repos"]}
        log.info("segment composed", extra=told)
        return 1

    def _put_segment(self, name: str, kept: Sequence[Kept]) -> None:
        created_at_us = int(self.clock.now() * 1e6)
        self.objects.put(name, segment_pieces(self.objects, kept, created_at_us))

    def _list(self, line: Mapping[str, Any]) -> None:
        """A segment counts for readers from here on; only then its parts go."""
        self.objects.put(_line_name(line["segment"]), json.dumps(line).encode() + b"\n")
        self.objects.delete(map(path_of, line["parts"]))

    def _part_sizes(self) -> dict[str, int]:
        found = self.objects.sizes(FOLDER)
        return {name.removesuffix(".rca"): size for name, size in found.items()}


def groups(
    parts: Sequence[str], sizes: Mapping[str, int], full: int, everything: bool
) -> Iterator[list[str]]:
    """Parts that are composed together: each group as soon as it is full, the rest on demand."""
    group: list[str] = []
    size = 0
    for part in parts:
        if part not in sizes:
            continue  # Somebody else has just composed it.
        group.append(part)
        size += sizes[part]
        if size >= full:
            yield group
            group, size = [], 0
    if group and everything:
        yield group


def _line_name(segment: str) -> str:
    return f"{MANIFEST}/{segment.removesuffix('.rca')}.json"


def _missing(part: str, kept: Kept, dids: set[bytes]) -> SinkError:
    lost = next(iter(dids - {entry.did for entry in kept.entries}))
    return SinkError(
        f"{path_of(part)} does not hold {lost.decode('utf-8', 'replace')}",
        "put the part back as it was written",
    )
