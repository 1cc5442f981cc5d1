"""The registry as the source and the store of a crawl: what is due is claimed a batch at a time.

A claim outlives nobody: each batch has an owner of its own, is renewed while it is worked on, and
is given back when the crawl ends. Who dies lets his claims run out, and others take them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from trawlnet.crawlers.pds.figures import counts_of, failures_of
from trawlnet.crawlers.pds.scan_parts import ScanResult
from trawlnet.crawlers.pds.verdict import conclude, excuse
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Clock, Counts, Failure, LaneWork, Lease, Page
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of
from trawlnet.tables.registry import PdsRow, Registry

_COUNT_EVERY = 1.0  # Seconds; the engine asks after each batch, and the registry is large.


@dataclass(frozen=True, slots=True)
class Rota:
    """When how much is scanned."""

    batch: int
    interval: float  # From the beginning of a batch to that of the next.
    once: bool = False  # Batch after batch until nothing is due, and then no more.
    skip_connected: bool = False


@dataclass(frozen=True, slots=True)
class _Held:
    task: Task
    owner: str
    is_begun: bool = False


class RegistryStore:
    """Rows that this process has claimed; all else stays in the registry."""

    def __init__(
        self, registry: Registry, clock: Clock, owner: str = "", lease: float = 0.0
    ) -> None:
        """Without an owner it is only looked at, and never claims."""
        self._registry = registry
        self._clock = clock
        self._owner = owner
        self._lease = lease
        self._claims = 0
        self._counted: Counts | None = None
        self._counted_at = 0.0
        self._held: dict[str, _Held] = {}

    async def claim(self, rota: Rota) -> list[Task]:
        """Claim the next batch; `feed` takes it in."""
        self._claims += 1
        owner, now = f"{self._owner}/{self._claims}", self._clock.now()
        rows = await self._registry.claim(
            rota.batch, now, self._lease, owner, skip_connected=rota.skip_connected
        )
        tasks = [_task(row) for row in rows]
        self._held |= {task.key: _Held(task, owner) for task in tasks}
        return tasks

    async def cursor(self) -> str | None:
        return None

    async def feed(self, page: Page) -> int:
        return len(page.tasks)  # They were claimed before they were told.

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        lanes = sorted({held.task.lane for held in self._held.values() if not held.is_begun})
        return [LaneWork(lane, 0.0) for lane in lanes if after is None or lane > after][:limit]

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        tasks, dues = [], {}
        for lane, count in wants.items():
            ready = [held for held in self._held.values() if _is_ready(held, lane)]
            for held in ready[:count]:
                self._held[held.task.key] = replace(held, is_begun=True)
                tasks.append(held.task)
            if len(ready) <= count:
                dues[lane] = math.inf
        return Lease(tasks, dues)

    async def still_holds(self, key: str) -> bool:
        """Whether the claim still stands: others may have taken it over if we were slow."""
        held = self._held[key]
        return await self._registry.renew(key, held.owner, self._clock.now(), self._lease)

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        for key, held in list(self._held.items()):
            await self._registry.renew(key, held.owner, now, ttl)

    async def settle(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            key = receipt.task.key
            held = self._held.get(key)
            if held is None:
                continue
            if isinstance(receipt.news, ScanResult):
                await conclude(self._registry, key, held.owner, receipt.news, receipt.at)
            else:
                await excuse(self._registry, key, held.owner, receipt.reason, receipt.at)
            del self._held[key]

    async def hold(self, lane: str, until: float) -> None:
        """Rows have due times of their own; a lane's is forgotten with the process."""

    async def counts(self) -> Counts:
        now = self._clock.now()
        if self._counted is None or now >= self._counted_at + _COUNT_EVERY:
            self._counted, self._counted_at = await counts_of(self._registry, now), now
        counts = self._counted
        if not self._owner:
            return counts
        # A crawl ends when its own batch has, however much is due for others.
        open_ = len(self._held)
        leased = sum(held.is_begun for held in self._held.values())
        given_up = sum(counts.settled.values())
        scheduled = max(0, counts.known - open_ - given_up)
        return replace(counts, open=open_, leased=leased, waiting=0, scheduled=scheduled)

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        async for failure in failures_of(self._registry, reason):
            yield failure

    async def retry(self, reason: Reason | None = None) -> int:
        return await self._registry.retry(reason, self._clock.now())

    async def close(self) -> None:
        for key, held in self._held.items():
            await self._registry.release(key, held.owner, self._clock.now())
        self._held.clear()


class DueSource:
    """A batch of what is due, then a pause; or, once, batch after batch until nothing is due."""

    def __init__(
        self,
        store: RegistryStore,
        clock: Clock,
        rota: Rota,
        discovered: asyncio.Event,
        before: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._rota = rota
        self._discovered = discovered  # Set when new rows may be there.
        self._before = before

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        rota = self._rota
        await self._before()
        while True:
            begun = self._clock.now()
            self._discovered.clear()
            if tasks := await self._store.claim(rota):
                # Whoever pulls the next page has waited until this one is worked off.
                yield Page(tasks, "")
            elif rota.once:
                return
            if not rota.once:
                await self._pause(begun + rota.interval, cut_short=not tasks)

    async def _pause(self, until: float, *, cut_short: bool) -> None:
        """Whoever had nothing to do may begin as soon as something was discovered."""
        sleeping = asyncio.ensure_future(self._clock.sleep(until - self._clock.now()))
        waking = asyncio.ensure_future(self._discovered.wait())
        try:
            waits = (sleeping, waking) if cut_short else (sleeping,)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()


def _task(row: PdsRow) -> Task:
    return Task(row.pds_url, lane_of(row.pds_url), score=row.order)


def _is_ready(held: _Held, lane: str) -> bool:
    return held.task.lane == lane and not held.is_begun
