"""The data between a fleet and its dashboards: figures one way, commands the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trawlnet.stores.redis.scripts import Scripts

WATCH_SECONDS: Final = 10  # Seconds after a read for which a dashboard counts as watching.
_LANES_SECONDS: Final = 60  # Seconds after which lanes that no shard reports are deleted.


@dataclass(frozen=True, slots=True)
class Wishes:
    watched: bool = False
    paused: bool = False
    again: int = 0  # How often failures were reopened: blocked lanes may have work again.


class FleetWindow:
    """Under the prefix of the fleet: `watched` exists while a dashboard reads; `wishes` is a hash;
    `window:lanes` has a table of lanes for each shard; `history:<tier>` are lists of samples."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def watch(self) -> None:
        await self._scripts.ask("SET", "watched", 1, "EX", WATCH_SECONDS)

    async def wish(self, *, paused: bool) -> None:
        await self._scripts.ask("HSET", "wishes", "paused", int(paused))

    async def wishes(self) -> Wishes:
        watched = await self._scripts.ask("EXISTS", "watched")
        fields = await self._scripts.ask("HGETALL", "wishes")
        paused, again = int(fields.get(b"paused", 0)), int(fields.get(b"again", 0))
        return Wishes(bool(watched), bool(paused), again)

    async def tell_lanes(self, shard: int, table: bytes) -> None:
        await self._scripts.ask("HSET", "window:lanes", shard, table)
        await self._scripts.ask("EXPIRE", "window:lanes", _LANES_SECONDS)

    async def lanes(self) -> Mapping[int, bytes]:
        """The last table of each shard."""
        tables = await self._scripts.ask("HGETALL", "window:lanes")
        return {int(shard): table for shard, table in tables.items()}

    async def remember(self, tier: str, sample: bytes, length: int) -> None:
        await self._scripts.ask("RPUSH", f"history:{tier}", sample)
        await self._scripts.ask("LTRIM", f"history:{tier}", -length, -1)

    async def remembered(self, tier: str, most: int = 0) -> list[bytes]:
        """All samples of a tier, or the newest `most`."""
        return list(await self._scripts.ask("LRANGE", f"history:{tier}", -most, -1))

    async def newest_lines(self, most: int) -> list[bytes]:
        """The newest lines of the manifest, the oldest first."""
        return list(await self._scripts.ask("LRANGE", "manifest", -most, -1))

    async def parts(self) -> int:
        """The number of parts that wait to be composed."""
        return int(await self._scripts.ask("SCARD", "parts"))
