"""Composes parts of captures into logs, and lists the logs in the manifest that readers use."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trawlnet.captures.parts import PART_SUFFIX, PARTS, WARC, ComposedLog, part_path
from trawlnet.captures.shared_archive import LOGS, MANIFEST, ManifestLine, listed_of, log_name
from trawlnet.crawlers.errors import NotReady
from trawlnet.fleet.compose import groups
from trawlnet.storage.objects import Objects
from trawlnet.stores.redis.fleet.shards import FleetKeys

log = logging.getLogger(__name__)

LOG_BYTES: Final = 8 << 20  # Compressed bytes of the parts that make up one log.


@dataclass(frozen=True, slots=True)
class CaptureComposer:
    """Several may run at once: of two that compose the same part, the second is refused."""

    keys: FleetKeys
    objects: Objects
    full: int = LOG_BYTES

    async def check_place(self) -> None:
        """Raises NotReady for an archive of a crawl that this Redis does not know: Redis numbers
        the files, and would reuse their names."""
        if not (await self.keys.plan()).version and await self._in(MANIFEST):
            raise NotReady(
                f"{self.objects.url} holds captures of another crawl",
                "name another --archive, or the Redis of that crawl",
            )

    async def compose(self, *, everything: bool) -> int:
        """Compose complete parts into full logs; with `everything`, also into a last one that is
        not full. Returns the number of logs."""
        await self._restate()
        sizes = await asyncio.to_thread(self._part_sizes)
        ready = await self.keys.composable()
        made = 0
        for group in groups(ready, sizes, self.full, everything):
            made += await self._compose_one(group)
        return made

    async def sweep(self) -> int:
        """Delete parts that are in a log, and those of dead shards without any settled key, with
        their WARC files. Returns the number of parts."""
        logs = await asyncio.to_thread(self._part_sizes)
        warcs = {name.partition(".warc")[0]: name for name in await self._in(WARC)}
        owners = await self.keys.owners()
        composed = {part for line in await self.keys.manifest() for part in line["parts"]}
        alive = composed | set(await self.keys.parts())
        lost = {
            part
            for part in (*logs, *warcs)
            if part not in alive and part.partition(".")[0] not in owners
        }
        doomed = [part_path(part) for part in logs if part in composed or part in lost]
        doomed += [f"{WARC}/{name}" for part, name in warcs.items() if part in lost]
        await asyncio.to_thread(self.objects.delete, doomed)
        return len(doomed)

    async def _restate(self) -> None:
        """Complete the work of a killed composer: list its logs, and delete their parts."""
        known = await self._in(MANIFEST)
        for line in map(listed_of, await self.keys.manifest()):
            if line.path.rpartition("/")[2] not in known:
                await asyncio.to_thread(self._list, line)

    async def _compose_one(self, parts: Sequence[str]) -> int:
        settled = {part: await self.keys.placed(part) for part in parts}
        made = ComposedLog(self.objects, settled)
        name = log_name(await self.keys.next_segment())
        await asyncio.to_thread(self.objects.put, f"{LOGS}/{name}", made.pieces())
        line = ManifestLine(name, made.captures, parts)
        if not await self.keys.publish(parts, line.as_json()):
            await asyncio.to_thread(self.objects.delete, [f"{LOGS}/{name}"])
            return 0
        await asyncio.to_thread(self._list, line)
        fields = {"log": name, "captures": made.captures, "parts": len(parts)}
        log.info("captures listed", extra=fields)
        return 1

    def _list(self, line: ManifestLine) -> None:
        """List the captures for readers, and only then delete the logs of the parts."""
        self.objects.put(line.path, json.dumps(line.as_json()).encode() + b"\n")
        self.objects.delete(map(part_path, line.parts))

    def _part_sizes(self) -> Mapping[str, int]:
        found = self.objects.sizes(PARTS)
        return {name.removesuffix(PART_SUFFIX): size for name, size in found.items()}

    async def _in(self, folder: str) -> Mapping[str, int]:
        return await asyncio.to_thread(self.objects.sizes, folder)
