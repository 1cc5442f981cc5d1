"""How many accounts each PDS has, as all shards know it: its rate goes by that, and a lane that
changes its owner must not change its pace."""

from __future__ import annotations

import logging
from collections.abc import Callable

from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.store.errors import StoreError
from trawlnet.store.redis import RedisStore
from trawlnet.store.redis_scripts import SCAN_COUNT

log = logging.getLogger(__name__)

_TELL_EVERY = 5.0  # Seconds; what a crash forgets makes its lanes slower, until they are counted.
_KEY = "accounts"
_AT_ONCE = 2000  # Lanes in one command.


class SharedSizes:
    """Beside the keys of the store: a hash from lane to accounts."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._untold: dict[str, int] = {}

    def note(self, lane: str, accounts: int) -> None:
        self._untold[lane] = accounts

    async def of(self, owns: Callable[[str], bool]) -> dict[str, int]:
        """What is known of our lanes."""
        found: dict[str, int] = {}
        position: object = 0
        while True:
            position, rows = await self._store.ask("HSCAN", _KEY, position, "COUNT", SCAN_COUNT)
            lanes = {lane.decode(): int(count) for lane, count in rows.items()}
            found |= {lane: count for lane, count in lanes.items() if owns(lane)}
            if int(str(position)) == 0:
                return found

    async def telling(self, control: Control) -> None:
        """A companion of the crawl."""
        while True:
            await self._clock.sleep(_TELL_EVERY)
            await self._tell()

    async def close(self) -> None:
        try:
            await self._tell()
        except StoreError as error:
            log.warning("sizes not told", extra={"error": str(error)})

    async def _tell(self) -> None:
        told, self._untold = list(self._untold.items()), {}
        for start in range(0, len(told), _AT_ONCE):
            some = [text for pair in told[start : start + _AT_ONCE] for text in pair]
            await self._store.ask("HSET", _KEY, *some)
