"""Identities in doubt are looked up in their directory, a few at a time, each now and then."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection

from trawlnet.crawlers.repos.accounts.identity import RepoIdentity, Resolver
from trawlnet.crawlers.repos.following.judging import IdentityDoubt
from trawlnet.engine.control import Control
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock

log = logging.getLogger(__name__)

_PLC_WORKERS = 4
# An account of did:web has a server of its own, which may take half a minute for each answer: so
# these wait beside those of the directory, and no PDS has more than so many workers at a time.
_WEB_WORKERS, _WEB_SHARE = 16, 4
_WAITING = 10_000  # Doubts, of each kind; further ones are dropped: a visit that is due checks.
_REMEMBERED = 100_000  # Accounts that were looked up lately.
_PARKED = 5.0  # Seconds until a directory that is left alone is tried again.
_LOOK_EVERY = 1.0  # Seconds, for accounts that may be looked up again.


class FairQueue:
    """Doubts by the PDS that they come from, each PDS in its turn."""

    def __init__(self, most: int, share: int) -> None:
        self._most = most
        self._share = share  # So many of one source may be in hand at a time.
        self._waiting: OrderedDict[str, OrderedDict[IdentityDoubt, None]] = OrderedDict()
        self._in_hand: Counter[str] = Counter()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, doubt: IdentityDoubt) -> bool:
        return doubt in self._waiting.get(doubt.source, ())

    def add(self, doubt: IdentityDoubt) -> bool:
        """Whether all found room: else the newest doubt of a source that has more than its share
        was dropped."""
        if doubt in self:
            return True
        mine = self._waiting.setdefault(doubt.source, OrderedDict())
        mine[doubt] = None
        self._count += 1
        if self._count <= self._most:
            return True
        if len(mine) * len(self._waiting) < self._count:
            mine = max(self._waiting.values(), key=len)
        self.remove(next(reversed(mine)))
        return False

    def take(self) -> IdentityDoubt | None:
        """It is in hand until `done`."""
        for source, doubts in self._waiting.items():
            if self._in_hand[source] < self._share:
                doubt = next(iter(doubts))
                self._waiting.move_to_end(source)
                self.remove(doubt)
                self._in_hand[source] += 1
                return doubt
        return None

    def done(self, doubt: IdentityDoubt) -> None:
        self._in_hand[doubt.source] -= 1
        if not self._in_hand[doubt.source]:
            del self._in_hand[doubt.source]

    def remove(self, doubt: IdentityDoubt) -> None:
        doubts = self._waiting[doubt.source]
        del doubts[doubt]
        self._count -= 1
        if not doubts:
            del self._waiting[doubt.source]

    def all(self) -> list[IdentityDoubt]:
        return [doubt for doubts in self._waiting.values() for doubt in doubts]


class _Desk:
    """Workers for one kind of DID."""

    def __init__(self, workers: int, share: int) -> None:
        self.workers = workers
        self.queue = FairQueue(_WAITING, share)
        self.news = asyncio.Event()

    async def next(self) -> IdentityDoubt:
        while (doubt := self.queue.take()) is None:
            self.news.clear()
            await self.news.wait()
        return doubt

    def end(self, doubt: IdentityDoubt) -> None:
        self.queue.done(doubt)
        self.news.set()


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
        self._plc = _Desk(_PLC_WORKERS, _PLC_WORKERS)
        self._web = _Desk(_WEB_WORKERS, _WEB_SHARE)
        self._recent: OrderedDict[str, float] = OrderedDict()  # When each may be again.
        self._later = FairQueue(_WAITING, 0)  # They are added again when they may be.
        self._is_later = asyncio.Event()
        self.dropped = 0  # Doubts, in this run.

    def __len__(self) -> int:
        """Doubts that wait."""
        return len(self._plc.queue) + len(self._web.queue) + len(self._later)

    def add(self, doubts: Collection[IdentityDoubt]) -> None:
        for doubt in doubts:
            desk = self._web if doubt.did.startswith("did:web:") else self._plc
            self.dropped += not desk.queue.add(doubt)
            desk.news.set()

    async def run(self, control: Control) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._bring_back())
            for desk in (self._plc, self._web):
                for _ in range(desk.workers):
                    group.create_task(self._work(desk))

    async def _work(self, desk: _Desk) -> None:
        while True:
            doubt = await desk.next()
            try:
                if self._is_recent(doubt.did):
                    # Not left out: a key may change twice in a minute.
                    self.dropped += not self._later.add(doubt)
                    self._is_later.set()
                else:
                    await self._look_up(doubt)
            finally:
                desk.end(doubt)

    async def _bring_back(self) -> None:
        while True:
            if not self._later:
                self._is_later.clear()
                await self._is_later.wait()
            await self._clock.sleep(_LOOK_EVERY)
            now = self._clock.now()
            due = [one for one in self._later.all() if self._recent.get(one.did, 0.0) <= now]
            for doubt in due:
                self._later.remove(doubt)
            self.add(due)

    def _is_recent(self, did: str) -> bool:
        """Else it is from now on."""
        now = self._clock.now()
        if self._recent.get(did, 0.0) > now:
            return True
        self._recent[did] = now + self._pause
        self._recent.move_to_end(did)
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return False

    async def _look_up(self, doubt: IdentityDoubt) -> None:
        did = doubt.did
        try:
            found = await self._resolver.resolve(did)
        except LaneParked:
            await self._clock.sleep(_PARKED)
            self._recent.pop(did, None)
            self.add([doubt])
            return
        if isinstance(found, Outcome):
            extra = {"did": did, "reason": str(found.reason), "detail": found.detail}
            log.info("identity not found", extra=extra)
        else:
            await self._learn(found)
