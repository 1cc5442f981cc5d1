"""Identities in doubt are looked up in their directory, a few at a time, each now and then."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection

from trawlnet.crawlers.repos.accounts.identity import RepoIdentity, Resolver
from trawlnet.engine.control import Control
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock

log = logging.getLogger(__name__)

_WORKERS = 4
_WAITING = 10_000  # Accounts; further ones are not looked up: a visit that is due checks them.
_REMEMBERED = 100_000  # Accounts that were looked up lately.
_PARKED = 5.0  # Seconds until a directory that is left alone is tried again.


class IdentityLookups:
    def __init__(
        self,
        resolver: Resolver,
        learn: Callable[[RepoIdentity], Awaitable[None]],
        clock: Clock,
        pause: float,
    ) -> None:
        self._resolver = resolver
        self._learn = learn
        self._clock = clock
        self._pause = pause  # Seconds between two lookups of one account.
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._recent: OrderedDict[str, float] = OrderedDict()  # When each may be again.
        self._later: set[str] = set()  # They are added again when they may be.
        self._news = asyncio.Event()

    def add(self, dids: Collection[str]) -> None:
        for did in dids:
            if len(self._waiting) < _WAITING:
                self._waiting[did] = None
        self._news.set()

    async def run(self, control: Control) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            did, _ = self._waiting.popitem(last=False)
            if (wait := self._wait(did)) > 0:
                # Not left out: a key may change twice in a minute.
                self._put_off(did, wait)
            else:
                await self._look_up(did)

    def _put_off(self, did: str, wait: float) -> None:
        """One timer for an account, however often somebody brings it into doubt."""
        if did not in self._later and len(self._later) < _WAITING:
            self._later.add(did)
            asyncio.get_running_loop().call_later(wait, self._add_again, did)

    def _add_again(self, did: str) -> None:
        self._later.discard(did)
        self.add([did])

    def _wait(self, did: str) -> float:
        now = self._clock.now()
        if (wait := self._recent.get(did, 0.0) - now) > 0:
            return wait
        self._recent[did] = now + self._pause
        self._recent.move_to_end(did)
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return 0.0

    async def _look_up(self, did: str) -> None:
        try:
            found = await self._resolver.resolve(did)
        except LaneParked:
            await self._clock.sleep(_PARKED)
            self._recent.pop(did, None)
            self.add([did])
            return
        if isinstance(found, Outcome):
            extra = {"did": did, "reason": str(found.reason), "detail": found.detail}
            log.info("identity not found", extra=extra)
        else:
            await self._learn(found)
