"""The registry as the source and the work of a crawl: what is due is claimed a batch at a time.

A claim outlives nobody: each batch has an owner of its own, is renewed while it is worked on, and
is given back when the crawl ends. Who dies lets his claims run out, and others take them.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from trawlnet.crawlers.errors import Unanswered
from trawlnet.crawlers.pds.figures import counts_from, failures_of
from trawlnet.crawlers.pds.scanning.parts import ScanResult
from trawlnet.crawlers.pds.scanning.verdict import conclude, excuse
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Clock, Counts, Failure, LaneWork, Lease, Ledger, Page, Work
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of
from trawlnet.tables.errors import TablesBusy, TablesFull, TablesUnreachable
from trawlnet.tables.registry.registry import PdsRow, Registry, Stats, Which

log = logging.getLogger(__name__)

T = TypeVar("T")
TablesAway = (TablesUnreachable, TablesBusy, TablesFull)
_LOOK_AGAIN = 2.0  # Seconds, for those who wait for others.
_AWAY, _LONGEST_AWAY = 1.0, 30.0  # Seconds until a database that is away is tried again.
_COUNT_EVERY = 1.0  # Seconds; the engine asks after each batch, and the registry is large.


@dataclass(frozen=True, slots=True)
class Rota:
    """When how much is scanned."""

    batch: int
    interval: float  # From the beginning of a batch to that of the next.
    once: bool = False  # Batch after batch until all are scanned whole, and then no more.
    which: Which = field(default_factory=Which)
    at_once: int = 2  # Scans that were cut short and go on between two batches.


@dataclass(frozen=True, slots=True)
class _HeldClaim:
    task: Task
    owner: str
    is_begun: bool = False


class RegistryStore:
    """Rows that this process has claimed; all else stays in the registry."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        owner: str = "",
        lease: float = 0.0,
        tell: Callable[[Stats], None] = lambda stats: None,
        parked: Callable[[str], float] = lambda lane: 0.0,
    ) -> None:
        """Without an owner it is only looked at, and never claims."""
        self._registry = registry
        self._clock = clock
        self._owner = owner
        self._lease = lease
        self._tell = tell  # Told whenever the registry was counted.
        self._parked = parked  # Until when a lane wants to be left alone.
        self._claims = 0
        self._counted: Counts | None = None
        self._counted_at = 0.0
        self._held: dict[str, _HeldClaim] = {}
        # Lanes that are held, and until when. Rows have due times of their own, which last: this
        # is forgotten with the process.
        self._holds: dict[str, float] = {}

    async def claim(self, most: int, which: Which) -> list[Task]:
        """Claim some that are due: they are open from now on."""
        self._claims += 1
        owner = f"{self._owner}/{self._claims}"
        rows = await self._patiently(
            lambda: self._registry.claim(most, self._clock.now(), self._lease, owner, which)
        )
        tasks = [_task(row) for row in rows]
        self._held |= {task.key: _HeldClaim(task, owner) for task in tasks}
        return tasks

    async def next_begun(self, rota: Rota) -> float:
        """When a scan that was cut short may go on; infinity if there is none. Who scans once
        does not wait for servers that send us away, but for other processes at work: one of them
        may die, or leave something to go on with."""
        due = await self._patiently(lambda: self._next_due(rota, self._clock.now()))
        return math.inf if due is None else due

    async def _next_due(self, rota: Rota, now: float) -> float | None:
        if rota.once:
            return await self._registry.next_once(now, rota.which, now + _LOOK_AGAIN)
        return await self._registry.next_begun(now, rota.which)

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        lanes = sorted({held.task.lane for held in self._held.values() if not held.is_begun})
        beyond = [lane for lane in lanes if after is None or lane > after][:limit]
        return [LaneWork(lane, 0.0, self._holds.get(lane, 0.0)) for lane in beyond]

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        tasks, dues = [], {}
        for lane, count in wants.items():
            ready = [held for held in self._held.values() if _is_ready(held, lane)]
            for held in ready[:count]:
                self._held[held.task.key] = replace(held, is_begun=True)
                tasks.append(held.task)
            if len(ready) < count:
                dues[lane] = math.inf
        return Lease(tasks, dues)

    async def renewed(self, key: str) -> str | None:
        """The owner under which a row is claimed; None if others took it over: we were slow."""
        owner = self._held[key].owner
        is_ours = await self._registry.renew(key, owner, self._clock.now(), self._lease)
        return owner if is_ours else None

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        for key, held in list(self._held.items()):
            owner = held.owner
            try:
                await self._registry.renew(key, owner, self._clock.now(), ttl)
            except TablesAway as away:
                # Others may take it over, and what we write then is refused.
                log.warning("claim not renewed", extra={"pds": key, "error": str(away)})

    async def settle(self, receipts: Sequence[Receipt[ScanResult]]) -> None:
        for receipt in receipts:
            key = receipt.task.key
            held = self._held.get(key)
            if held is None:
                continue
            await self._patiently(partial(self._conclude, receipt, held))
            del self._held[key]
        if not self._held:
            self._counted = None  # A batch is done: whoever looks now should see it.

    async def _conclude(self, receipt: Receipt[ScanResult], held: _HeldClaim) -> bool:
        key, now = receipt.task.key, receipt.at
        if receipt.news is not None:
            return await conclude(self._registry, key, held.owner, receipt.news, now)
        return await excuse(self._registry, key, held.owner, receipt.reason, now)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """A database that is away, or has no room, is waited for: nothing is lost meanwhile, and
        whoever runs for months should not have to be started again."""
        wait, away_since = _AWAY, None
        while True:
            try:
                done = await act()
            except TablesAway as away:
                if away_since is None:
                    away_since = self._clock.now()
                    log.warning("registry unreachable; waiting", extra={"error": str(away)})
                await self._clock.sleep(wait)
                wait = min(2 * wait, _LONGEST_AWAY)
            else:
                if away_since is not None:
                    seconds = round(self._clock.now() - away_since, 1)
                    log.warning("registry back", extra={"seconds": seconds})
                return done

    async def hold(self, lane: str, until: float) -> None:
        now = self._clock.now()
        self._holds = {held: end for held, end in self._holds.items() if end > now}
        self._holds[lane] = until

    async def outlook(self) -> Counts:
        """The whole registry, whoever scans it."""
        now = self._clock.now()
        if self._counted is None or now >= self._counted_at + _COUNT_EVERY:
            stats = await self._patiently(lambda: self._registry.stats(self._clock.now()))
            self._counted, self._counted_at = counts_from(stats), now
            self._tell(stats)
        return self._counted

    async def counts(self) -> Counts:
        counts = await self.outlook()
        if not self._owner:
            return counts
        # A crawl ends when its own batch has, however much is due for others.
        open_ = len(self._held)
        leased = sum(held.is_begun for held in self._held.values())
        blocked = sum(self._is_blocked(held.task.lane) for held in self._held.values())
        given_up = sum(counts.settled.values())
        scheduled = max(0, counts.known - open_ - given_up)
        return replace(
            counts, open=open_, leased=leased, waiting=0, blocked=blocked, scheduled=scheduled
        )

    def _is_blocked(self, lane: str) -> bool:
        return self._holds.get(lane, 0.0) == math.inf

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        async for failure in failures_of(self._registry, reason):
            yield failure

    async def retry(self, reason: Reason | None = None) -> int:
        if reason in (None, Reason.BLOCKED):
            self._holds = {lane: end for lane, end in self._holds.items() if end < math.inf}
        return await self._registry.retry(reason, self._clock.now())

    async def close(self) -> None:
        held, self._held = self._held, {}
        for key, one in held.items():
            try:
                await self._give_back(key, one)
            except TablesAway as away:
                log.warning("claim not released", extra={"pds": key, "error": str(away)})
                return  # It runs out by itself.

    async def _give_back(self, key: str, held: _HeldClaim) -> None:
        """A server that has just asked us to wait is waited for by whoever comes next, too."""
        now = self._clock.now()
        wait = self._parked(held.task.lane) - now
        if held.is_begun and 0.0 < wait < math.inf:
            reason = Reason.RATE_LIMITED
            await self._registry.put_off(key, held.owner, reason, now=now, again_in=wait)
        else:
            await self._registry.release(key, held.owner, now, begun=held.is_begun)


_UNREAD = "see to its address, then run the same command again"


class DueSource:
    """A batch of what is due, then what was cut short, until it is time for the next batch; or,
    once, batch after batch until nothing is left to ask."""

    def __init__(
        self,
        store: RegistryStore,
        clock: Clock,
        rota: Rota,
        discovered: asyncio.Event,
        before: Callable[[], Awaitable[str]],
    ) -> None:
        """`before` looks for PDSes, and gives why a source was not read to its end."""
        self._store = store
        self._clock = clock
        self._rota = rota
        self._discovered = discovered  # Set when new rows may be there.
        self._before = before

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        rota = self._rota
        # Those that were cut short have the time between batches to themselves.
        fresh = rota.which if rota.once else replace(rota.which, begun=False)
        unread = await self._before()
        while True:
            begun = self._clock.now()
            self._discovered.clear()
            if tasks := await self._store.claim(rota.batch, fresh):
                # Whoever pulls the next page has waited until this one is worked off.
                yield Page(tasks, "")
            elif rota.once:
                due = await self._store.next_begun(rota)
                if due > begun + rota.interval:
                    # All that is known is scanned; what that source has nobody knows.
                    if unread:
                        raise Unanswered(
                            f"discovery did not finish reading a source: {unread}", _UNREAD
                        )
                    return
                await self._pause(due)
            if not rota.once:
                spare = len(tasks) < rota.batch
                async for page in self._going_on(begun + rota.interval, cut_short=spare):
                    yield page

    async def _going_on(self, until: float, *, cut_short: bool) -> AsyncIterator[Page]:
        """No more than workers at a time, so that the next batch waits for one slice at most.
        Whoever had not enough to do begins anew as soon as something was discovered."""
        rota, which = self._rota, replace(self._rota.which, begun=True)
        is_over = False
        while not is_over:
            if tasks := await self._store.claim(rota.at_once, which):
                # At least once, also where batches take all the time there is.
                yield Page(tasks, "")
            else:
                due = await self._store.next_begun(rota)
                await self._pause(min(until, due), cut_short=cut_short)
            is_over = self._clock.now() >= until or (cut_short and self._discovered.is_set())

    async def _pause(self, until: float, *, cut_short: bool = False) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(until - self._clock.now()))
        waking = asyncio.ensure_future(self._discovered.wait())
        try:
            waits = (sleeping, waking) if cut_short else (sleeping,)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()


def _task(row: PdsRow) -> Task:
    # When it was last asked, by whomever: another process knows nothing of our gate.
    return Task(row.pds_url, lane_of(row.pds_url), row.last_try_at, score=row.order)


def _is_ready(held: _HeldClaim, lane: str) -> bool:
    return held.task.lane == lane and not held.is_begun


if TYPE_CHECKING:
    _WORK: type[Work[ScanResult]] = RegistryStore
    _LEDGER: type[Ledger] = RegistryStore
