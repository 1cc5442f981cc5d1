"""Scanning PDSes now, outside of the schedule: a crawl of those that somebody named.

A scan is claimed, made and concluded slice by slice: whoever is stopped between two of them, or
killed within one, leaves a scan that anybody can go on with.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from trawlnet.crawlers.pds.config import TRIES, step_retries
from trawlnet.crawlers.pds.scanning.claimed import (
    LOOK_EVERY,
    NEXT_FOR,
    ClaimContext,
    busy,
    unless_dead,
)
from trawlnet.crawlers.pds.scanning.parts import ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.work import ScanHandler, ScanSink, Slice
from trawlnet.crawlers.pds.schedule import ClaimRules, RegistryStore, StoreHooks
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.tables.registry.rules import EntryVerdict as Entered
from trawlnet.tables.registry.rules import PdsSource, Registered, Which

_LONGEST_WAIT = 900.0  # Seconds; a server that sends us away for longer is for another day.

Tell = Callable[[str, ScanResult | str], None]


@dataclass(frozen=True, slots=True)
class NamedScans:
    """How PDSes are scanned that somebody named."""

    context: ClaimContext
    gate: Gate
    opened: Callable[[str, str], Slice]  # A slice of a PDS, under the name of an owner.
    concurrency: int = 1
    one_slice: bool = False  # Instead of slice after slice to the end.
    # Told after each slice but the last what the scan has come to so far.
    on_slice: Callable[[str, ScanResult], None] = lambda url, so_far: None


async def scan_each(scans: NamedScans, urls: Iterable[str], tell: Tell) -> None:
    """Due or not, known or not; each is told when it ends, or why it was not scanned."""
    await _run(scans, [_Wish(url) for url in dict.fromkeys(urls)], tell)


async def scan_batch(scans: NamedScans, most: int, scope: str, tell: Tell) -> None:
    """At most so many of those that are due, the most urgent first."""
    await _run(scans, [_Wish("", Which(scope=scope)) for _ in range(most)], tell)


async def _run(scans: NamedScans, wishes: list[_Wish], tell: Tell) -> None:
    context = scans.context
    ends = _SliceEnds()
    store = RegistryStore(
        context.registry,
        context.clock,
        ClaimRules(context.owner, context.lease, context.gap),
        scans.opened,
        StoreHooks(scans.gate.parked, on_end=ends.add),
    )
    source = _WishSource(scans, store, wishes, ends, tell)
    parts = Parts(
        Feed(source, None),
        store,
        ScanHandler(store.work),
        ScanSink(store.work),
        scans.gate,
        context.clock,
        companions=[store.steer],
    )
    # The source itself says how many are scanned at a time.
    limits = Limits(lease=context.lease, high_water=len(wishes), retry=step_retries(TRIES))
    try:
        await crawl(parts, limits, Control(scans.concurrency))
    finally:
        await store.close()


@dataclass(slots=True)
class _Wish:
    """One PDS that is to be scanned, and how far that has come."""

    url: str  # As it was written; empty: whichever is due.
    due: Which | None = None
    entered: Registered | None = None
    so_far: ScanResult | None = None
    at: float = -math.inf  # Not before this instant.
    until: float = -math.inf  # If others have it, they are waited for until then.
    is_waiting: bool = False


@dataclass(slots=True)
class _SliceEnds:
    """Slices that have ended, until the source looks at them."""

    waiting: list[tuple[str, ScanResult]] = field(default_factory=list)
    change: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, url: str, result: ScanResult) -> None:
        self.waiting.append((url, result))
        self.change.set()


class _WishSource:
    """Claims as many as may be scanned at a time; one that was cut short is claimed again for each
    slice, so that somebody's account may come first."""

    def __init__(
        self,
        scans: NamedScans,
        store: RegistryStore,
        wishes: list[_Wish],
        ends: _SliceEnds,
        tell: Tell,
    ) -> None:
        self._scans = scans
        self._context = scans.context
        self._store = store
        self._wishes = wishes
        self._tell = tell
        self._running: dict[str, _Wish] = {}
        self._ends = ends

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        while self._wishes or self._running:
            self._ends.change.clear()
            while self._ends.waiting:
                await self._take_stock(*self._ends.waiting.pop(0))
            now = self._context.clock.now()
            for wish in [one for one in self._wishes if one.at <= now]:
                if len(self._running) >= self._scans.concurrency:
                    break
                if (task := await self._claimed(wish)) is not None:
                    self._running[task.key] = wish
                    self._wishes.remove(wish)
                    yield Page([task], "")
            await self._pause()

    async def _claimed(self, wish: _Wish) -> Task | None:
        """None: it is not to be had now, or not at all, which has been told."""
        if wish.due is not None:
            return await self._due(wish, wish.due)
        context, clock = self._context, self._context.clock
        if wish.entered is None:
            wish.entered = await context.registry.register(
                wish.url, PdsSource.USER, now=clock.now()
            )
            if wish.entered.verdict is Entered.REFUSED:
                self._give_up(wish, wish.entered.reason)
                return None
        url = wish.entered.url
        if (task := await self._store.claim_one(url)) is not None:
            return task
        now = clock.now()
        if now >= wish.until:
            self._give_up(wish, await busy(context, url))
            return None
        await context.registry.want(url, now, NEXT_FOR, context.owner)
        if not wish.is_waiting:
            context.on_wait(wish.url, min(wish.until - now, context.lease))
        wish.at, wish.is_waiting = now + LOOK_EVERY, True
        return None

    async def _due(self, wish: _Wish, which: Which) -> Task | None:
        tasks = await self._store.claim(1, which)
        if not tasks:
            self._wishes = [one for one in self._wishes if one.due is None]
            return None
        wish.url, wish.due = tasks[0].key, None
        wish.entered = Registered(Entered.KNOWN, wish.url)
        return tasks[0]

    def _give_up(self, wish: _Wish, why: str) -> None:
        self._wishes.remove(wish)
        self._tell(wish.url, why)

    async def _take_stock(self, url: str, piece: ScanResult) -> None:
        """A slice is over: the scan goes on, or is told."""
        wish, context = self._running.pop(url), self._context
        so_far = piece if wish.so_far is None else joined(wish.so_far, piece)
        wait = None if self._scans.one_slice else before_next(piece)
        if wait is None:
            if wish.entered is not None:
                await unless_dead(context, wish.entered, so_far)
            self._tell(wish.url, so_far)
            return
        self._scans.on_slice(wish.url, so_far)
        wish.so_far, wish.is_waiting = so_far, False
        wish.at = context.clock.now() + wait
        wish.until = wish.at + context.lease
        self._wishes.append(wish)

    async def _pause(self) -> None:
        """Until a slice is over, or something may be claimed."""
        if not self._wishes and not self._running:
            return
        at = min((wish.at for wish in self._wishes), default=math.inf)
        if len(self._running) >= self._scans.concurrency:
            at = math.inf
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._ends.change.wait())]
        if at < math.inf:
            clock = self._context.clock
            seconds = max(0.0, at - clock.now())
            waits.append(asyncio.ensure_future(clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def before_next(piece: ScanResult) -> float | None:
    """Seconds until the next slice; None if there is none, or none worth waiting for."""
    got_on = piece.repos > 0 or piece.found > 0
    goes_on = piece.verdict is ScanVerdict.PARTIAL or (
        piece.verdict is ScanVerdict.PUT_OFF and got_on
    )
    if not goes_on or piece.again_in is None or piece.again_in > _LONGEST_WAIT:
        return None
    return piece.again_in


def joined(before: ScanResult, piece: ScanResult) -> ScanResult:
    """Two slices as one scan: what was done adds up, and the later one has the last word."""
    return replace(
        piece,
        tally=before.tally + piece.tally,
        requests=before.requests + piece.requests,
        lookups=before.lookups + piece.lookups,
        repos=before.repos + piece.repos,
    )
