"""The registry as the work of a crawl: claims PDSes that are due, in batches.

A claim is a lease: each batch has its own owner, is renewed while it is worked on, and is released
when the crawl ends. The claims of a dead process expire, and others take them.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trawlnet.crawlers.pds.figures import counts_from, failures_of
from trawlnet.crawlers.pds.scanning.claimed import NEXT_FOR
from trawlnet.crawlers.pds.scanning.ending import SHORT_PAUSE, SliceEnd, TablesAway
from trawlnet.crawlers.pds.scanning.parts import ScanResult
from trawlnet.crawlers.pds.scanning.verdict import conclude
from trawlnet.crawlers.pds.scanning.work import Errand, HeldRow, ScanWork, Slice
from trawlnet.engine.control import Control
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Clock, Counts, Failure, LaneWork, Lease, Ledger, Work
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of
from trawlnet.tables.errors import LeaseLost
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import PdsRow, Which
from trawlnet.tables.registry.stats import Stats

log = logging.getLogger(__name__)

T = TypeVar("T")
_LOOK_AGAIN = 2.0  # Seconds between two checks while other processes work.
_AWAY, _LONGEST_AWAY = 1.0, 30.0  # Seconds until a database that does not answer is tried again.
_COUNT_EVERY = 1.0  # Seconds; the engine asks after each batch, and the registry is large.


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How many PDSes are scanned, and when."""

    batch: int
    interval: float  # Seconds from the start of a batch to the start of the next.
    once: bool = False  # Scan batch after batch until all scans are complete, then end.
    which: Which = field(default_factory=Which)
    resumed: int = 2  # Interrupted scans that continue between two batches.


class ClaimedLook(NamedTuple):
    task: Task
    delays_scan: bool  # A scan of the same PDS waits meanwhile.


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """In whose name PDSes are claimed, for how long, and how many."""

    owner: str
    lease: float
    gap: float = 0.0  # Seconds between two requests to one PDS, from all processes.
    most: int | None = None  # Slices that may be begun in all.
    shares_workers: bool = False  # Half of the workers are for looks.


@dataclass(frozen=True, slots=True)
class StoreHooks:
    """What the rest of a crawl knows, or is told."""

    parked: Callable[[str], float] = lambda lane: 0.0  # Until when a lane is parked.
    on_count: Callable[[Stats], None] = lambda stats: None  # The registry was counted.
    on_end: Callable[[str, ScanResult], None] = lambda pds, result: None  # A slice has ended.


NO_HOOKS = StoreHooks()


class RegistryStore:
    """The rows that this process has claimed, and the steps of their scans; all other state is in
    the registry."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        rules: ClaimRules,
        opened: Callable[[str, str], Slice],
        hooks: StoreHooks = NO_HOOKS,
    ) -> None:
        """`opened` begins a slice of a PDS under the name of an owner."""
        self._registry = registry
        self._clock = clock
        self._rules = rules
        self._opened = opened
        self._hooks = hooks
        self._claims = 0
        self._counted: Counts | None = None
        self._counted_at = 0.0
        self._control: Control | None = None
        # Set when a claim ends that was not for a scan: one that was cut short may go on.
        self.freed = asyncio.Event()
        self.work = ScanWork(self, clock)

    async def steer(self, control: Control) -> None:
        """A companion of the crawl: limits the PDSes scanned at a time to its workers."""
        self._control = control

    def enough(self) -> bool:
        """Whether all slices that may be begun have ended."""
        return self._has_begun_most() and not self.work.under_way

    def _has_begun_most(self) -> bool:
        return self._rules.most is not None and self.work.begun >= self._rules.most

    def places(self) -> float:
        if self._has_begun_most():
            return 0
        if self._control is None:
            return math.inf
        workers = self._control.workers
        return -(-workers // 2) if self._rules.shares_workers else workers

    def on_place(self, lane: str) -> None:
        if self._control is not None:
            self._control.wake(lane)

    async def claim(self, most: int, which: Which) -> list[Task]:
        """Claim PDSes that are due: they are open from now on."""
        self._claims += 1
        owner, lease = f"{self._rules.owner}/{self._claims}", self._rules.lease
        rows = await self.patiently(
            lambda: self._registry.claim(most, self._clock.now(), lease, owner, which)
        )
        held = [HeldRow(self._task(row), owner) for row in rows]
        free = [row for row in held if not await self._put_off(row)]
        self.work.add(free)
        return [row.task for row in free]

    async def claim_one(self, url: str) -> Task | None:
        """Claim one PDS, due or not; None if another process has claimed it, or waits for it."""
        row, owner = await self._claimed(url, self._rules.owner), self._rules.owner
        if row is None:
            return None
        held = HeldRow(self._task(row), owner)
        self.work.add([held])
        return held.task

    async def claim_look(self, url: str, errand: Errand) -> ClaimedLook | None:
        """Claim one PDS for an errand before any scan of it. None: it is being scanned, and the
        errand is next."""
        if (mine := self.work.rows.get(url)) is not None and mine.slice is not None:
            mine.slice.hurry()
        if (lent := self.work.lend(url, errand)) is not None:
            return ClaimedLook(lent, delays_scan=True)
        now, owner = self._clock.now(), f"{self._rules.owner}/looks"
        row = await self._claimed(url, owner)
        if row is None:
            await self.patiently(lambda: self._registry.want(url, now, NEXT_FOR, owner))
            return None
        held = HeldRow(self._task(row), owner, errand=errand)
        self.work.add([held])
        return ClaimedLook(held.task, delays_scan=(row.next_scan_at or 0.0) <= now)

    async def _claimed(self, url: str, owner: str) -> PdsRow | None:
        now, lease = self._clock.now(), self._rules.lease
        return await self.patiently(lambda: self._registry.claim_one(url, now, lease, owner))

    async def _put_off(self, row: HeldRow) -> bool:
        """Whether a server asked to wait for longer than a claim should last."""
        now, key = self._clock.now(), row.task.key
        wait = self._hooks.parked(row.task.lane) - now
        if not SHORT_PAUSE < wait < math.inf:
            return False
        reason = Reason.PARKED
        return await self.patiently(
            lambda: self._registry.put_off(key, row.owner, reason, now=now, again_in=wait)
        )

    def _task(self, row: PdsRow) -> Task:
        # From the last request of any process, because our gate knows only our own.
        due = 0.0 if row.last_try_at is None else row.last_try_at + self._rules.gap
        return Task(row.pds_url, lane_of(row.pds_url), due=due, score=row.order)

    async def next_begun(self, plan: BatchPlan) -> float:
        """When an interrupted scan may continue; infinity if there is none. With `once`, the crawl
        does not wait for servers that asked to wait, but for other processes: one of them may die,
        or leave a scan to continue."""
        due = await self.patiently(lambda: self._next_due(plan, self._clock.now()))
        return math.inf if due is None else due

    async def _next_due(self, plan: BatchPlan, now: float) -> float | None:
        if plan.once:
            return await self._registry.next_once(now, plan.which, now + _LOOK_AGAIN)
        return await self._registry.next_begun(now, plan.which)

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        return await self.work.lanes(after, limit)

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        return await self.work.lease(wants, now, ttl)

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        await self.work.renew(keys, now, ttl)

    async def renew_row(self, row: HeldRow, ttl: float) -> None:
        key = row.task.key
        try:
            await self._registry.renew(key, row.owner, self._clock.now(), ttl)
        except TablesAway as away:
            # Another process may take it over, and then our writes are refused.
            log.warning("claim not renewed", extra={"pds": key, "error": str(away)})

    async def settle(self, receipts: Sequence[Receipt[SliceEnd]]) -> None:
        await self.work.settle(receipts)
        if not self.work.rows:
            self._counted = None  # A batch is done: the next count must show it.

    async def open_row(self, row: HeldRow) -> Slice | None:
        key, owner = row.task.key, row.owner
        is_ours = await self.patiently(
            lambda: self._registry.renew(key, owner, self._clock.now(), self._rules.lease)
        )
        if not is_ours:
            return None
        if row.errand is not None:
            return row.errand.open(key, owner)
        return self._opened(key, owner)

    async def end_row(self, row: HeldRow, result: ScanResult, is_counted: bool) -> None:
        key, now = row.task.key, self._clock.now()
        if row.errand is not None:
            if not row.is_lent:
                await self.patiently(
                    lambda: self._registry.release(key, row.owner, now, begun=True)
                )
            row.errand.ended(key)
            self.freed.set()
            return
        await self.patiently(lambda: conclude(self._registry, key, row.owner, result, now))
        if self._control is not None and not is_counted:
            self._control.figures.add_settled(result.reason)
        self._hooks.on_end(key, result)

    async def patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Wait for a database that does not answer or is full: nothing is lost meanwhile, and a
        crawl of months need not be restarted."""
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
        await self.work.hold(lane, until)

    async def holds(self, now: float) -> Mapping[str, float]:
        return await self.work.holds(now)

    async def outlook(self) -> Counts:
        """The counts of the whole registry, for all processes."""
        now = self._clock.now()
        if self._counted is None or now >= self._counted_at + _COUNT_EVERY:
            stats = await self.patiently(lambda: self._registry.stats(self._clock.now()))
            self._counted, self._counted_at = counts_from(stats), now
            self._hooks.on_count(stats)
        return self._counted

    async def counts(self) -> Counts:
        counts = await self.outlook()
        # A crawl ends with its own batch, even if others have more to do.
        mine = await self.work.counts()
        given_up = sum(counts.settled.values())
        scheduled = max(0, counts.known - mine.open - given_up)
        return replace(
            counts,
            open=mine.open,
            leased=mine.leased,
            waiting=0,
            blocked=mine.blocked,
            scheduled=scheduled,
        )

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        async for failure in failures_of(self._registry, reason):
            yield failure

    async def retry(self, reason: Reason | None = None) -> int:
        if reason in (None, Reason.BLOCKED):
            parked = self.work.parked.items()
            self.work.parked = {lane: end for lane, end in parked if end < math.inf}
        return await self._registry.retry(reason, self._clock.now())

    async def close(self) -> None:
        for key, row in self.work.rows.items():
            try:
                await self._give_back(key, row)
            except TablesAway as away:
                log.warning("claim not released", extra={"pds": key, "error": str(away)})
                return  # The claim expires.

    async def _give_back(self, key: str, row: HeldRow) -> None:
        """Release a claim with the wait that its server asked for, which counts for the next
        process, too."""
        if row.slice is not None:
            with suppress(LeaseLost):
                await row.slice.rest()
        now = self._clock.now()
        wait = self._hooks.parked(row.task.lane) - now
        if row.slice is not None and row.errand is None and 0.0 < wait < math.inf:
            reason = Reason.RATE_LIMITED
            await self._registry.put_off(key, row.owner, reason, now=now, again_in=wait)
        else:
            begun = row.slice is not None
            await self._registry.release(key, row.owner, now, begun=begun)


if TYPE_CHECKING:
    _WORK: type[Work[SliceEnd]] = RegistryStore
    _LEDGER: type[Ledger] = RegistryStore
