"""The crawl: feed, lease, work, write, settle. Read `crawl` first, then downwards."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.engine.control import Control, Ending
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Outcome, Reason, Receipt
from trawlnet.engine.ports import Clock, Counts, Handler, Page, Sink, Source, Store, Unstorable
from trawlnet.engine.rules import RetryPolicy, judge
from trawlnet.engine.schedule import Schedule
from trawlnet.engine.task import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a crawl is made of."""

    source: Source
    store: Store
    handler: Handler
    sink: Sink
    gate: Gate
    clock: Clock
    # Whether a limit of the crawler's own was reached, such as so many pages.
    enough: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a crawl may use; every queue and every wait is bounded by something here."""

    batch: int = 256  # Outcomes written and settled in one go.
    backlog: int = 256  # Outcomes that wait for the sink before workers wait, too.
    lease: float = 120.0  # Renewed while a task runs; after a crash others wait this long.
    ahead: float = 0.05  # Start a task this long before its lane is free, not to miss the instant.
    high_water: int = 100_000  # Open tasks at which the source waits,
    few_lanes: int = 0  # unless fewer lanes than this have work;
    highest_water: int = 1_000_000  # then it waits at this many.
    lanes: int = 50_000  # Lanes kept in memory; others wait in the store.
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    follow: bool = False  # Stay for tasks that are scheduled to be visited again.
    most_tasks: int | None = None  # Start no more than this many tasks.
    most_seconds: float | None = None


async def crawl(parts: Parts, limits: Limits, control: Control) -> Ending:
    """Run until the source is dry and every task is settled, or until told to stop."""
    floor = _Floor(parts, limits, control)
    control.lanes_with_work = lambda: floor.lanes_with_work
    try:
        async with asyncio.TaskGroup() as group:
            floor.group = group
            feeding = group.create_task(_feed(floor))
            renewing = group.create_task(_renew(floor))
            settling = group.create_task(_settle(floor))
            await _dispatch(floor)
            feeding.cancel()
            renewing.cancel()
            await floor.done.put(None)
            await settling
    except BaseExceptionGroup as troubles:
        raise _first(troubles) from troubles
    return control.ending or Ending.DONE


@dataclass(frozen=True, slots=True)
class _Done:
    task: Task
    outcome: Outcome
    hold: float  # The lane to blame is parked until then; 0 if it is not.

    @property
    def lane(self) -> str:
        return self.outcome.lane or self.task.lane


class _Floor:
    """What the coroutines of one crawl share."""

    group: asyncio.TaskGroup

    def __init__(self, parts: Parts, limits: Limits, control: Control) -> None:
        self.parts = parts
        self.limits = limits
        self.control = control
        self.schedule = Schedule(limits.lanes)
        self.done: asyncio.Queue[_Done | None] = asyncio.Queue(limits.backlog)
        self.held: set[str] = set()  # Keys from lease to settlement.
        self.busy: Counter[str] = Counter()  # Tasks being worked on, by lane.
        self.full: set[str] = set()  # Lanes with work but no room for another task.
        self.begun = 0
        self.relief = asyncio.Event()  # Something was settled: the source may look again.
        self.listed: str | None = None  # How far the store's lanes have been read.
        self.deadline = math.inf
        if limits.most_seconds is not None:
            self.deadline = parts.clock.now() + limits.most_seconds

    @property
    def free(self) -> int:
        """How many more tasks may be started now."""
        if self.control.paused or self.control.ending or self.parts.enough():
            return 0
        free = self.control.workers - self.control.in_flight
        if self.limits.most_tasks is not None:
            free = min(free, self.limits.most_tasks - self.begun)
        return max(free, 0)

    @property
    def lanes_with_work(self) -> int:
        """Lanes that have something to do, now or later; blocked ones have not."""
        at_work = self.busy.keys() | self.full
        return len(at_work) + self.schedule.lanes_besides(at_work)

    def note(self, lane: str, due: float) -> None:
        """The lane has work at `due`: look at it then, or shortly before the gate lets it pass."""
        self.schedule.add(lane, max(due, self.parts.gate.ready_at(lane) - self.limits.ahead))


async def _feed(floor: _Floor) -> None:
    """Pull pages from the source, no faster than the store is worked off."""
    store, control = floor.parts.store, floor.control
    async for page in floor.parts.source.pages(await store.cursor()):
        control.fed += await store.feed(page)
        for lane, due in _earliest(page).items():
            floor.note(lane, due)
        control.changed.set()
        while _is_enough(floor, await store.counts()):
            floor.relief.clear()
            await floor.relief.wait()
    control.source_dry = True
    control.changed.set()


def _is_enough(floor: _Floor, counts: Counts) -> bool:
    """Whether the source should wait. What blocked lanes hold is not worked off, however long it
    waits; and a few lanes alone cannot use all workers, so that others are looked for."""
    limits, left = floor.limits, counts.open - counts.blocked
    if floor.lanes_with_work < limits.few_lanes:
        return left > limits.highest_water
    return left > limits.high_water


def _earliest(page: Page) -> Mapping[str, float]:
    dues: dict[str, float] = {}
    for task in page.tasks:
        dues[task.lane] = min(task.due, dues.get(task.lane, math.inf))
    return dues


async def _dispatch(floor: _Floor) -> None:
    """Start what may run; sleep until a lane is due or something happens."""
    await _forgive_blocked_lanes(floor)
    while True:
        # Cleared before looking: whatever happens from here on is not missed by the wait below.
        floor.control.changed.clear()
        if wants := _pick(floor):
            await _start(floor, wants)
        elif await _finished(floor):
            return
        else:
            await _until(floor, _next_look(floor))


def _pick(floor: _Floor) -> dict[str, int]:
    """How many tasks to lease from which lanes: those due, fairly, as far as workers are free."""
    free, gate = floor.free, floor.parts.gate
    now = floor.parts.clock.now()
    horizon = now + floor.limits.ahead
    room: dict[str, int] = {}
    lanes = floor.schedule.take(now)
    while len(room) < free and (lane := next(lanes, None)) is not None:
        if gate.ready_at(lane) > horizon + _TICK:
            floor.note(lane, now)
        elif (places := gate.room(lane) - floor.busy[lane]) > 0:
            room[lane] = min(places, max(1, gate.allowance(lane, horizon)))
        else:
            floor.full.add(lane)
    share = max(1, free // len(room)) if room else 0
    return {lane: min(places, share) for lane, places in room.items()}


async def _start(floor: _Floor, wants: Mapping[str, int]) -> None:
    lease = await floor.parts.store.lease(wants, floor.parts.clock.now(), floor.limits.lease)
    for task in lease.tasks:
        floor.held.add(task.key)
        floor.busy[task.lane] += 1
        floor.begun += 1
        floor.control.in_flight += 1
        floor.parts.gate.promise(task.lane, 1)
        floor.group.create_task(_work(floor, task))
    for lane in wants:
        # A lane that had less than asked for says when it has more; any other has more now.
        floor.note(lane, lease.dues.get(lane, 0.0))


async def _work(floor: _Floor, task: Task) -> None:
    """One try at one task, from lease to outcome."""
    outcome = await _try(floor, task)
    hold = floor.parts.gate.observe(outcome.lane or task.lane, outcome)
    _leave_lane(floor, task.lane)
    # The worker stays taken until the sink has room: this is the back-pressure.
    await floor.done.put(_Done(task, outcome, hold))
    floor.control.in_flight -= 1
    floor.control.changed.set()


async def _try(floor: _Floor, task: Task) -> Outcome:
    try:
        return await floor.parts.handler(task)
    except LaneParked as parked:
        wait = parked.until - floor.parts.clock.now()
        return Outcome(Reason.PARKED, wait=wait, detail=f"lane {parked.lane} is parked")
    except Exception as error:  # The one broad except: a bug costs a task, not the crawl.
        log.exception("handler failed", extra={"key": task.key, "lane": task.lane})
        return Outcome(Reason.UNKNOWN, detail=f"{type(error).__name__}: {error}"[:200])


def _leave_lane(floor: _Floor, lane: str) -> None:
    floor.busy[lane] -= 1
    floor.parts.gate.promised_at_most(lane, floor.busy[lane])
    if not floor.busy[lane]:
        del floor.busy[lane]
    if lane in floor.full:
        floor.full.discard(lane)
        floor.note(lane, 0.0)


async def _settle(floor: _Floor) -> None:
    """Write and settle a batch at a time: one commit for as much as has come together."""
    while batch := await _take_batch(floor.done, floor.limits.batch):
        await _settle_batch(floor, batch)
        floor.relief.set()


async def _settle_batch(floor: _Floor, batch: Sequence[_Done]) -> None:
    parts, now = floor.parts, floor.parts.clock.now()
    judged = [judge(one.task, one.outcome, floor.limits.retry, now) for one in batch]
    # Results are durable before the store forgets the work.
    await parts.sink.write([(one.task, one.outcome.items) for one in batch if one.outcome.items])
    for lane, until in _holds(batch).items():
        await parts.store.hold(lane, until)
    receipts = await _record(parts.store, judged)
    for receipt in receipts:
        floor.held.discard(receipt.task.key)
        if receipt.next is not None:
            floor.note(receipt.next.lane, receipt.next.due)
    for lane in {task.lane for receipt in receipts for task in receipt.found}:
        floor.note(lane, 0.0)
    floor.control.settled_batch(receipts, now)


async def _record(store: Store, receipts: Sequence[Receipt]) -> Sequence[Receipt]:
    """Settle them all; one that no store can keep costs its own task and no other."""
    try:
        await store.settle(receipts)
        return receipts
    except Unstorable:
        return [await _record_alone(store, receipt) for receipt in receipts]


async def _record_alone(store: Store, receipt: Receipt) -> Receipt:
    try:
        await store.settle([receipt])
        return receipt
    except Unstorable as error:
        log.exception("unstorable receipt", extra={"key": receipt.task.key})
        detail = f"{type(error).__name__}: {error}"[:200]
        bare = Receipt(receipt.task, Reason.UNKNOWN, detail=detail, at=receipt.at)
        await store.settle([bare])
        return bare


def _holds(batch: Sequence[_Done]) -> Mapping[str, float]:
    holds: dict[str, float] = {}
    for one in batch:
        if one.hold > 0.0:
            holds[one.lane] = max(one.hold, holds.get(one.lane, 0.0))
    return holds


async def _take_batch(queue: asyncio.Queue[_Done | None], most: int) -> list[_Done]:
    """What is there now, waiting only for the first; empty means the end."""
    batch: list[_Done] = []
    item = await queue.get()
    while item is not None:
        batch.append(item)
        if len(batch) == most or queue.empty():
            return batch
        item = queue.get_nowait()
    if batch:
        queue.put_nowait(None)  # The end comes after this batch.
    return batch


async def _finished(floor: _Floor) -> bool:
    control, limits = floor.control, floor.limits
    if not control.ending and _limit_reached(floor):
        control.drain(Ending.LIMIT)
    if floor.held:
        return False
    if control.ending:
        return True
    if floor.schedule.overflowed and len(floor.schedule) < limits.lanes // 2:
        await _list_lanes(floor)
        return False
    if not control.source_dry or limits.follow:
        return False
    counts = await floor.parts.store.counts()
    return counts.open == counts.blocked


def _limit_reached(floor: _Floor) -> bool:
    most, parts = floor.limits.most_tasks, floor.parts
    if most is not None and floor.begun >= most:
        return True
    return parts.clock.now() >= floor.deadline or parts.enough()


def _next_look(floor: _Floor) -> float:
    """When to look again if nothing happens before."""
    if floor.control.ending:
        return math.inf
    if floor.free == 0:
        return floor.deadline
    # An empty schedule with open tasks: another process has them leased, and may have died.
    alone = floor.held or len(floor.schedule)
    idle = math.inf if alone else floor.parts.clock.now() + floor.limits.lease / 4
    return min(floor.schedule.next(), idle, floor.deadline)


async def _until(floor: _Floor, when: float) -> None:
    seconds = None if when == math.inf else max(_TICK, when - floor.parts.clock.now())
    try:
        async with asyncio.timeout(seconds):
            await floor.control.changed.wait()
    except TimeoutError:
        if not len(floor.schedule) and not floor.held:
            await _list_lanes(floor)


_TICK = 1e-4  # Seconds; a shorter wait than this may round to no wait at all, for ever.


async def _forgive_blocked_lanes(floor: _Floor) -> None:
    """A new run gives every blocked lane another chance, and reads what the last one left."""
    after: str | None = None
    while lanes := await floor.parts.store.lanes(after, _LANES_AT_ONCE):
        for work in lanes:
            if work.held == math.inf:
                await floor.parts.store.hold(work.lane, 0.0)
        after = lanes[-1].lane
    await _list_lanes(floor)


async def _list_lanes(floor: _Floor) -> None:
    """Put the store's lanes on the schedule, from where the last listing had to stop."""
    floor.schedule.overflowed = False
    while not floor.schedule.overflowed:
        lanes = await floor.parts.store.lanes(floor.listed, _LANES_AT_ONCE)
        for work in lanes:
            if work.held > floor.parts.clock.now():
                floor.parts.gate.park(work.lane, work.held)
            floor.note(work.lane, work.due)
            if floor.schedule.overflowed:
                return
            floor.listed = work.lane
        if len(lanes) < _LANES_AT_ONCE:
            floor.listed = None
            return


_LANES_AT_ONCE = 1000


async def _renew(floor: _Floor) -> None:
    while True:
        await floor.parts.clock.sleep(floor.limits.lease / 3)
        if floor.held:
            now = floor.parts.clock.now()
            await floor.parts.store.renew(list(floor.held), now, floor.limits.lease)


def _first(troubles: BaseExceptionGroup[Any]) -> BaseException:
    """The trouble that stopped the crawl: the group around it says nothing more."""
    trouble: BaseException = troubles
    while isinstance(trouble, BaseExceptionGroup):
        trouble = trouble.exceptions[0]
    return trouble
