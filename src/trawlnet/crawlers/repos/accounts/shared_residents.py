"""Which accounts each PDS has, as all shards know it together: a lane's rate goes by that, whoever
owns the lane and whoever has found its accounts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from trawlnet.crawlers.repos.accounts.residents import ENOUGH, digest_of
from trawlnet.crawlers.share import Share
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.stores.redis.scripts import SCAN_COUNT
from trawlnet.stores.redis.work.store import RedisStore

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
            for start in range(0, len(dids), _DIDS_AT_ONCE)
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
