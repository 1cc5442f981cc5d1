"""Looks at accounts that firehoses name: PDSes are claimed for it, and each look is judged.

A look takes no more of a PDS than a scan does: one of them has it at a time, and their requests
pass the same gate. Where a scan of the same PDS waits, half of the time is the scan's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from trawlnet.crawlers.pds.following.look_slice import LookSlice
from trawlnet.crawlers.pds.scanning.account import ELSEWHERE
from trawlnet.crawlers.pds.scanning.ending import SHORT_PAUSE
from trawlnet.crawlers.pds.scanning.parts import ScanParts, ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.slice import ScanSlice
from trawlnet.crawlers.pds.schedule import RegistryStore
from trawlnet.engine.control import Control
from trawlnet.engine.outcome import Blame
from trawlnet.net.lane import lane_of
from trawlnet.tables.registry.looks import DueLook, RegistryLooks
from trawlnet.tables.registry.registry import Registry

T = TypeVar("T")

_AT_ONCE = 100  # PDSes that are thought of at a time.
_EVERY, _IDLE = 0.25, 5.0  # Seconds between two thoughts, while something waits and else.
_GRANT_EVERY = 1.0  # Seconds.
_FIRST_WAIT = 30.0  # Seconds until a PDS that failed is asked again; then four times that.
TRIES = 4  # Before that is left to the scans of the PDS.


@dataclass(frozen=True, slots=True)
class LookLimits:
    pause: float  # Seconds between two looks at one account.
    per_minute: float  # Looks at accounts of one PDS.
    seconds: float  # That one look may take, and looks at one PDS in a row.
    rescan_pause: float  # Seconds from a whole scan of a PDS to one that a firehose asks for.


@dataclass(slots=True)
class _Visit:
    """A PDS that is claimed for looks."""

    began: float
    delays_scan: bool
    looks: int = 0


@dataclass(slots=True)
class LookScheduler:
    """An Errand of the store, and a companion of the crawl."""

    looks: RegistryLooks
    registry: Registry
    store: RegistryStore
    scans: ScanParts
    limits: LookLimits
    on_rescan: Callable[[], None] = lambda: None  # Called when scans are due.
    made: int = 0  # Looks, in this run.
    rescans: int = 0
    waiting: int = 0  # Looks, as last counted.
    waiting_rescans: int = 0
    _visits: dict[str, _Visit] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)  # PDSes that are left alone until then.
    _granted_at: float = 0.0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self._news.set()

    async def run(self, control: Control) -> None:
        while True:
            self._news.clear()
            now = self._now
            self.waiting, self.waiting_rescans = await self.store.patiently(
                partial(self.looks.tidy, now)
            )
            if self.waiting:
                await self._claim(control, now)
            if self.waiting_rescans and now >= self._granted_at + _GRANT_EVERY:
                await self._grant(now)
            await self._pause()

    async def _pause(self) -> None:
        busy = self.waiting or self.waiting_rescans
        try:
            async with asyncio.timeout(_EVERY if busy else _IDLE):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _grant(self, now: float) -> None:
        scope, pause = self.scans.routes.scope.digest, self.limits.rescan_pause
        granted = await self.store.patiently(partial(self.looks.grant, scope, now, pause))
        self._granted_at = now
        self.rescans += granted
        if granted:
            self.on_rescan()

    async def _claim(self, control: Control, now: float) -> None:
        self._rests = {url: until for url, until in self._rests.items() if until > now}
        free = max(1, control.workers // 2) - len(self._visits)
        if free <= 0 or control.paused or control.ending:
            return
        most = _AT_ONCE + len(self._rests) + len(self._visits)
        for url in await self.store.patiently(partial(self.looks.due_places, now, most)):
            if free <= 0:
                return
            if url in self._rests or url in self._visits:
                continue
            parked = self.scans.gate.parked(lane_of(url))
            if parked > now + SHORT_PAUSE:
                self._rests[url] = parked
                continue
            claimed = await self.store.claim_look(url, self)
            if claimed is not None:
                self._visits[url] = _Visit(now, claimed.delays_scan)
                control.wake(claimed.task.lane)
                free -= 1

    def open(self, url: str, owner: str) -> LookSlice:
        return LookSlice(partial(self._begin, url, owner), partial(self._judge, url))

    def ended(self, url: str) -> None:
        visit, now = self._visits.pop(url), self._now
        rest = max(1, visit.looks) * 60.0 / self.limits.per_minute
        if visit.delays_scan:
            rest = max(rest, now - visit.began)
        self._rests[url] = max(self._rests.get(url, 0.0), now + rest)
        self.wake()

    async def _begin(self, url: str, owner: str) -> tuple[DueLook, ScanSlice] | None:
        visit, now, limits = self._visits[url], self._now, self.limits
        if visit.looks >= limits.per_minute or now >= visit.began + limits.seconds:
            return None
        scope = self.scans.routes.scope.digest
        while due := await self._do(self.looks.due_looks, url, scope, now, 1):
            look = due[0]
            if look.is_begun:
                await self._do(self.looks.left_to_scan, url, look, now, now + limits.pause)
                continue
            visit.looks += 1
            scan = ScanSlice(self.scans, url, owner, now + limits.seconds, look.did)
            return look, scan.as_look(afresh=look.is_moved)
        return None

    async def _judge(self, url: str, look: DueLook, result: ScanResult) -> bool:
        """Whether the PDS may be asked more."""
        now, looks = self._now, self.looks
        again = now + self.limits.pause
        self.made += 1
        match result.verdict:
            case ScanVerdict.PUT_OFF:
                await self._later(url, look, result.again_in or 0.0)
                return False
            case ScanVerdict.FAILED if result.reason.blame in (Blame.LANE, Blame.US):
                await self._later(url, look, 0.0)
                return False
            case ScanVerdict.PARTIAL:
                await self._do(looks.left_to_scan, url, look, now, again)
            case ScanVerdict.FAILED if result.detail == ELSEWHERE and _is_followed(look):
                await self._do(looks.moved, url, look, now, again)
            case _:
                await self._do(looks.looked, url, look, now, again)
        if result.found:
            await self._do(self._note_records, url)
        return True

    async def _later(self, url: str, look: DueLook, wait: float) -> None:
        now = self._now
        if look.tries + 1 >= TRIES:
            await self._do(self.looks.give_up, url, now)
            return
        due = now + max(wait, _FIRST_WAIT * 4**look.tries)
        self._rests[url] = due
        await self._do(self.looks.later, url, due)

    async def _note_records(self, url: str) -> None:
        """A PDS that had none so far is scanned more often from now on."""
        row = await self.registry.get(url)
        if row is not None and not row.has_chive_records:
            await self.looks.ask_rescan(url, self._now)

    async def _do(self, act: Callable[..., Awaitable[T]], *values: Any) -> T:
        return await self.store.patiently(partial(act, *values))

    @property
    def _now(self) -> float:
        return self.scans.clock.now()


def _is_followed(look: DueLook) -> bool:
    """Whether an account that lives elsewhere is looked for there: only one that we hold, or a PDS
    could send us to others with invented news."""
    return look.is_held and look.tries + 1 < TRIES
