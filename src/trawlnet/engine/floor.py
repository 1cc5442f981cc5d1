"""What a crawl is made of, what it may use, and what its coroutines share while it runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from trawlnet.engine.agenda import Agenda
from trawlnet.engine.control import Control
from trawlnet.engine.crew import Crew
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import N, Outcome
from trawlnet.engine.ports import Clock, Counts, Frontier, Handler, Ledger, Sink, Source, Work
from trawlnet.engine.rules import RetryPolicy
from trawlnet.engine.task import Task


@dataclass(frozen=True, slots=True)
class Feed:
    """Where tasks come from, and what takes them in."""

    source: Source
    # None: what the source names is in the store already, and the source knows where to go on.
    frontier: Frontier | None


@dataclass(frozen=True, slots=True)
class Parts(Generic[N]):
    """What a crawl is made of; its handler and its store agree on what news is."""

    feed: Feed | None  # None: the store alone knows what there is to do.
    store: Work[N]
    handler: Handler[N]
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
    outcome: Outcome[Any]
    hold: float  # The lane to blame is parked until then; 0 if it is not.

    @property
    def lane(self) -> str:
        return self.outcome.lane or self.task.lane


class Floor:
    """What the coroutines of one crawl share; whatever changes belongs to one of its objects."""

    def __init__(
        self, parts: Parts[Any], limits: Limits, control: Control, group: asyncio.TaskGroup
    ) -> None:
        self.parts = parts
        self.limits = limits
        self.control = control
        self.group = group
        self.figures = control.figures
        self.crew = Crew(parts.gate, self.figures)
        ahead = limits.ahead - limits.gather
        self.agenda = Agenda(parts.gate, limits.lanes, ahead, parts.owns, self.crew.busy)
        self.done: asyncio.Queue[Done | None] = asyncio.Queue(limits.backlog)
        self.relief = asyncio.Event()  # Something was settled: the source may look again.
        self.born = parts.clock.now()
        self.deadline = math.inf
        if limits.most_seconds is not None:
            self.deadline = self.born + limits.most_seconds

    @property
    def free(self) -> int:
        """How many more tasks may be started now."""
        if self.control.paused or self.control.ending or self.parts.enough():
            return 0
        if self.deadline < math.inf and self.parts.clock.now() >= self.deadline:
            return 0
        free = self.control.workers - self.figures.in_flight
        if self.limits.most_tasks is not None:
            free = min(free, self.limits.most_tasks - self.figures.started)
        return max(free, 0)
