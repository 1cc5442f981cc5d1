"""What passes between a fleet and whoever watches it: figures one way, wishes the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trawlnet.stores.redis.scripts import Scripts

WATCH_SECONDS: Final = 10  # How long after a look somebody is taken to be watching.
_LANES_SECONDS: Final = 60  # After which lanes that nobody tells of any more are forgotten.


@dataclass(frozen=True, slots=True)
class Wishes:
    watched: bool = False
    paused: bool = False
    again: int = 0  # How often failures were put back: lanes that were given up on may have work.


class FleetWindow:
    """Under the prefix of the fleet: `watched` is there while somebody watches; `wishes` is a hash;
    `window:lanes` has a table of lanes for each shard; `history:<tier>` are lists of samples."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def watch(self) -> None:
        await self._scripts.ask("SET", "watched", 1, "EX", WATCH_SECONDS)

    async def wish(self, *, paused: bool) -> None:
        await self._scripts.ask("HSET", "wishes", "paused", int(paused))

    async def wishes(self) -> Wishes:
        watched = await self._scripts.ask("EXISTS", "watched")
        told = await self._scripts.ask("HGETALL", "wishes")
        paused, again = int(told.get(b"paused", 0)), int(told.get(b"again", 0))
        return Wishes(bool(watched), bool(paused), again)

    async def tell_lanes(self, shard: int, table: bytes) -> None:
        await self._scripts.ask("HSET", "window:lanes", shard, table)
        await self._scripts.ask("EXPIRE", "window:lanes", _LANES_SECONDS)

    async def lanes(self) -> Mapping[int, bytes]:
        """As each shard told of them last."""
        told = await self._scripts.ask("HGETALL", "window:lanes")
        return {int(shard): table for shard, table in told.items()}

    async def remember(self, tier: str, sample: bytes, length: int) -> None:
        await self._scripts.ask("RPUSH", f"history:{tier}", sample)
        await self._scripts.ask("LTRIM", f"history:{tier}", -length, -1)

    async def remembered(self, tier: str, most: int = 0) -> list[bytes]:
        """All of it, or so many of the newest."""
        return list(await self._scripts.ask("LRANGE", f"history:{tier}", -most, -1))

    async def newest_lines(self, most: int) -> list[bytes]:
        """Of the manifest, the oldest first."""
        return list(await self._scripts.ask("LRANGE", "manifest", -most, -1))

    async def parts(self) -> int:
        """That wait to be composed."""
        return int(await self._scripts.ask("SCARD", "parts"))
