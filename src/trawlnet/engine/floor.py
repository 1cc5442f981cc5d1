"""What a crawl is made of, what it may use, and what its coroutines share while it runs."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trawlnet.engine.control import Control
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock, Counts, Frontier, Handler, Ledger, Sink, Source, Work
from trawlnet.engine.rules import RetryPolicy
from trawlnet.engine.schedule import Schedule
from trawlnet.engine.task import Task


@dataclass(frozen=True, slots=True)
class Feed:
    """Where tasks come from, and what takes them in."""

    source: Source
    # None: what the source names is in the store already, and the source knows where to go on.
    frontier: Frontier | None


@dataclass(frozen=True, slots=True)
class Parts:
    """What a crawl is made of."""

    feed: Feed | None  # None: the store alone knows what there is to do.
    store: Work
    handler: Handler
    sink: Sink | None  # None: no outcome of this handler has items.
    gate: Gate
    clock: Clock
    # Whether a limit of the crawler's own was reached, such as so many pages.
    enough: Callable[[], bool] = lambda: False
    # Which share of all its keys the source has named, from 0 to 1; None if it cannot tell.
    share_named: Callable[[], float | None] = lambda: None
    # Which lanes are ours, where others work on the same store.
    owns: Callable[[str], bool] = lambda lane: True
    # Run beside the crawl, for as long as it lasts, to steer it.
    companions: Sequence[Callable[[Control], Coroutine[Any, Any, None]]] = ()
    # What people are shown, where the store counts only what this process has taken on.
    outlook: Callable[[], Awaitable[Counts]] | None = None
    # What commands look back at, and put work back into, while the crawl runs.
    ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a crawl may use; every queue and every wait is bounded by something here."""

    batch: int = 256  # Outcomes written and settled in one go.
    linger: float = 0.0  # Wait so long for more of them: fewer commits, and news a little later.
    backlog: int = 256  # Outcomes that wait for the sink before workers wait, too.
    # Outcomes with results that may wait for a slow sink while others are settled.
    unsettled: int = 0
    lease: float = 120.0  # Renewed while a task runs; after a crash others wait this long.
    ahead: float = 0.05  # Start a task this long before its lane is free, not to miss the instant,
    gather: float = 0.0  # or up to so much later, with those of other lanes: fewer leases.
    high_water: int = 100_000  # Open tasks at which the source waits,
    few_lanes: int = 0  # unless fewer lanes than this have work;
    highest_water: int = 1_000_000  # then it waits at this many.
    lanes: int = 50_000  # Lanes kept in memory; others wait in the store.
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    follow: bool = False  # Stay for tasks that are scheduled to be visited again.
    most_tasks: int | None = None  # Start no more than this many tasks.
    most_seconds: float | None = None


class Done(NamedTuple):
    task: Task
    outcome: Outcome
    hold: float  # The lane to blame is parked until then; 0 if it is not.

    @property
    def lane(self) -> str:
        return self.outcome.lane or self.task.lane


class Floor:
    """What the coroutines of one crawl share."""

    group: asyncio.TaskGroup

    def __init__(self, parts: Parts, limits: Limits, control: Control) -> None:
        self.parts = parts
        self.limits = limits
        self.control = control
        self.schedule = Schedule(limits.lanes, self.work_left)
        self.queued: Counter[str] = Counter()  # About so many tasks wait on each lane.
        self.done: asyncio.Queue[Done | None] = asyncio.Queue(limits.backlog)
        self.held: dict[str, Task] = {}  # Keys from lease to settlement, as they were leased.
        self.busy: Counter[str] = Counter()  # Tasks being worked on, by lane.
        self.born = parts.clock.now()
        self.full: set[str] = set()  # Lanes with work but no room for another task.
        self.unsettled = 0  # Outcomes that wait for a slow sink.
        self.written: list[Done] = []  # Those of them that wait for the store.
        self.recording = asyncio.Lock()
        self.relief = asyncio.Event()  # Something was settled: the source may look again.
        self.listed: str | None = None  # How far the store's lanes have been read.
        # When leases that a dead process has left behind are over.
        self.orphans_at = parts.clock.now() + limits.lease
        self.deadline = math.inf
        if limits.most_seconds is not None:
            self.deadline = parts.clock.now() + limits.most_seconds

    @property
    def free(self) -> int:
        """How many more tasks may be started now."""
        if self.control.paused or self.control.ending or self.parts.enough():
            return 0
        if self.deadline < math.inf and self.parts.clock.now() >= self.deadline:
            return 0
        free = self.control.workers - self.control.in_flight
        if self.limits.most_tasks is not None:
            free = min(free, self.limits.most_tasks - self.control.started)
        return max(free, 0)

    @property
    def lanes_with_work(self) -> int:
        """Lanes that have something to do, now or later; blocked ones have not."""
        at_work = self.busy.keys() | self.full
        return len(at_work) + self.schedule.lanes_besides(at_work)

    def wake(self, lane: str) -> None:
        self.note(lane, 0.0)
        self.control.changed.set()

    def count(self, lane: str, tasks: int) -> None:
        """So many more tasks wait there. Known ones may be among them: who finds the lane empty
        puts that right."""
        if lane in self.queued or len(self.queued) < self.limits.lanes:
            self.queued[lane] += tasks

    def let_go(self, task: Task) -> None:
        """It was settled. A store that is slow to say so may have leased the key again by now:
        that lease is still to be renewed."""
        if self.held.get(task.key) is task:
            del self.held[task.key]

    def started(self, lane: str, *, emptied: bool) -> None:
        """One of them began; `emptied`: it was the last."""
        self.queued[lane] -= 1
        if emptied or self.queued[lane] <= 0:
            del self.queued[lane]

    def work_left(self, lane: str) -> float:
        """Seconds that the lane needs at least for what waits on it."""
        return self.queued[lane] * self.parts.gate.interval(lane)

    def longest_lane(self) -> float:
        """Seconds that the lane with the most work needs at least: the crawl does, too."""
        gate, most = self.parts.gate, heapq.nlargest(_LONGEST, self.queued, self.queued.__getitem__)
        return max([self.work_left(lane) for lane in most if not gate.blocked(lane)], default=0.0)

    def note(self, lane: str, due: float) -> None:
        """The lane has work at `due`: look at it then, or shortly before the gate lets it pass."""
        if not self.parts.owns(lane):
            return
        ahead = self.limits.ahead - self.limits.gather
        self.schedule.add(lane, max(due, self.parts.gate.ready_at(lane) - ahead))


_LONGEST = 100  # Lanes with most tasks: one of them takes longest.
