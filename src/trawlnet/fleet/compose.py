"""Composes parts into segments, and lists the segments in the manifest that readers use."""

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
    """Several may run at once: of two that compose the same part, the second is refused."""

    keys: FleetKeys
    objects: Objects
    clock: Clock
    segment_size: int

    async def compose(self, *, everything: bool) -> int:
        """Compose complete parts into full segments; with `everything`, also into a last one that
        is not full. Returns the number of segments."""
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
        """After composing everything, each part that Redis still lists must exist."""
        counted = await self.keys.composable()  # Read first: parts are uploaded, then listed.
        there = await asyncio.to_thread(self._part_sizes)
        if lost := [part for part in counted if part not in there]:
            repos = len(await self.keys.placed(lost[0]))
            raise SinkError(
                f"{path_of(lost[0])} is gone from {self.objects.url}: {repos:,} repositories that "
                "count as archived were in it",
                "put it back as it was written, or begin anew: trawlnet repos reset",
            )

    async def restate(self) -> None:
        """Complete the work of a killed composer: list its segments, and delete their parts."""
        known = await asyncio.to_thread(self.objects.sizes, MANIFEST)
        for line in await self.keys.manifest():
            if _line_name(line["segment"]).rpartition("/")[2] not in known:
                await asyncio.to_thread(self._list, line)

    async def sweep(self) -> int:
        """Delete parts that are in a segment, and those of dead shards without any settled key.
        Returns the number of parts."""
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
        selected = []
        for part in parts:
            dids = await self.keys.placed(part)
            selected.append(await asyncio.to_thread(kept_of, self.objects, part, sizes[part], dids))
            if len(selected[-1].entries) < len(dids):
                raise _missing(part, selected[-1], dids)
        number = await self.keys.next_segment()
        line: dict[str, Any] = {
            "segment": segment_name(number),
            "repos": sum(len(one.entries) for one in selected),
            "parts": list(parts),
        }
        await asyncio.to_thread(self._put_segment, segment_name(number), selected)
        if not await self.keys.publish(parts, line):
            await asyncio.to_thread(self.objects.delete, [line["segment"]])
            return 0
        await asyncio.to_thread(self._list, line)
        fields = {"segment": line["segment"], "repos": line["repos"]}
        log.info("segment composed", extra=fields)
        return 1

    def _put_segment(self, name: str, selected: Sequence[Kept]) -> None:
        created_at_us = int(self.clock.now() * 1e6)
        self.objects.put(name, segment_pieces(self.objects, selected, created_at_us))

    def _list(self, line: Mapping[str, Any]) -> None:
        """List a segment for readers, and only then delete its parts."""
        self.objects.put(_line_name(line["segment"]), json.dumps(line).encode() + b"\n")
        self.objects.delete(map(path_of, line["parts"]))

    def _part_sizes(self) -> dict[str, int]:
        found = self.objects.sizes(FOLDER)
        return {name.removesuffix(".rca"): size for name, size in found.items()}


def groups(
    parts: Sequence[str], sizes: Mapping[str, int], full: int, everything: bool
) -> Iterator[list[str]]:
    """Groups of parts that make a full segment each; with `everything` also the rest."""
    group: list[str] = []
    size = 0
    for part in parts:
        if part not in sizes:
            continue  # Another process has just composed it.
        group.append(part)
        size += sizes[part]
        if size >= full:
            yield group
            group, size = [], 0
    if group and everything:
        yield group


def _line_name(segment: str) -> str:
    return f"{MANIFEST}/{segment.removesuffix('.rca')}.json"


def _missing(part: str, selected: Kept, dids: set[bytes]) -> SinkError:
    lost = next(iter(dids - {entry.did for entry in selected.entries}))
    return SinkError(
        f"{path_of(part)} does not hold {lost.decode('utf-8', 'replace')}",
        "put the part back as it was written",
    )
