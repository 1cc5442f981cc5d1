"""The parts of a crawl, its limits, and the state that its coroutines share."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
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
    """The source of tasks, and the frontier that stores them."""

    source: Source
    # None: the tasks of the source are in the store already, and the source has its own cursor.
    frontier: Frontier | None


@dataclass(frozen=True, slots=True)
class Parts(Generic[N]):
    """The parts of a crawl; its handler and its store agree on the type of news."""

    feed: Feed | None  # None: the store has all tasks.
    store: Work[N]
    handler: Handler[N]
    sink: Sink | None  # None: no outcome of this handler has items.
    gate: Gate
    clock: Clock
    # Whether a limit of the crawler was reached, such as a number of pages.
    enough: Callable[[], bool] = lambda: False
    # The share of all its keys that the source has listed, from 0 to 1; None if it is unknown.
    share_named: Callable[[], float | None] = lambda: None
    # Which lanes belong to this process, if several processes share the store.
    owns: Callable[[str], bool] = lambda lane: True
    # Coroutines that run beside the crawl and steer it.
    companions: Sequence[Callable[[Control], Coroutine[Any, Any, None]]] = ()
    # The counts to display, if the store counts only the tasks that this process has taken.
    outlook: Callable[[], Awaitable[Counts]] | None = None
    # The ledger that commands use while the crawl runs.
    ledger: Ledger | None = None
    # Facts that only the running process knows, for `status`.
    facts: Callable[[], Mapping[str, Any]] = dict


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a crawl; each queue and each wait is bounded by one of them."""

    batch: int = 256  # Outcomes that are written and settled in one transaction.
    linger: float = 0.0  # Seconds to wait for more outcomes: fewer commits, later results.
    backlog: int = 256  # Outcomes that wait for the sink before workers wait, too.
    # Outcomes with items that may wait for a slow sink while others are settled.
    unsettled: int = 0
    lease: float = 120.0  # Seconds; renewed while a task runs, and waited out after a crash.
    ahead: float = 0.05  # Seconds that a task starts before its lane is free.
    gather: float = 0.0  # Seconds to wait for tasks of other lanes: fewer leases.
    high_water: int = 100_000  # Open tasks at which the source waits.
    few_lanes: int = 0  # If fewer lanes than this have work, the source waits later:
    highest_water: int = 1_000_000  # at this many open tasks.
    lanes: int = 50_000  # Lanes in memory; others wait in the store.
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    follow: bool = False  # Wait for tasks that are scheduled for a later visit.
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
    """The objects that the coroutines of one crawl share; each owns its own changing state."""

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
        self.relief = asyncio.Event()  # Set when a task was settled: the source may continue.
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
