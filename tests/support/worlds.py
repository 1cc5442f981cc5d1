"""Small in-process worlds for engine tests: a source, a handler with habits, a counting sink."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Any

from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock, Handler, Page
from trawlnet.engine.rules import Manners
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import SimClock
from trawlnet.stores.memory import MemoryStore


def numbered_pages(total: int, lanes: int = 10, size: int = 50) -> list[Page]:
    tasks = [Task(f"key:{n:06}", f"lane{n % lanes}", {"n": n}) for n in range(total)]
    return [Page(tasks[at : at + size], f"{at:06}") for at in range(0, total, size)]


class ListSource:
    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages = pages
        self.given = 0

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        for page in self._pages:
            if after is None or page.cursor > after:
                self.given += 1
                yield page


class DictSink:
    """Keeps items by key and how often each was written; can fail after a number of writes."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.writes: Counter[str] = Counter()
        self.fail_at = fail_at
        self.batches: list[int] = []

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        if self.fail_at is not None and len(self.rows) >= self.fail_at:
            self.fail_at = None
            raise OSError("disk full")
        self.batches.append(len(batch))
        for task, items in batch:
            self.rows[task.key] = list(items)
            self.writes[task.key] += 1


class World:
    """A handler: asks the gate, notes the instant, takes some time, and answers by its habits."""

    def __init__(self, clock: Clock, gate: Gate, seed: int = 0, trouble: bool = True) -> None:
        self.clock = clock
        self.gate = gate
        self.rng = random.Random(seed)
        self.trouble = trouble
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.inside: Counter[str] = Counter()
        self.most_inside: Counter[str] = Counter()
        self.answers: Counter[Reason] = Counter()

    async def __call__(self, task: Task) -> Outcome:
        async with self.gate.turn(task.lane):
            self.starts[task.lane].append(self.clock.now())
            self.inside[task.lane] += 1
            self.most_inside[task.lane] = max(self.most_inside[task.lane], self.inside[task.lane])
            try:
                await self.clock.sleep(self.rng.uniform(0.01, 2.0))
            finally:
                self.inside[task.lane] -= 1
        outcome = self._answer(task)
        self.answers[outcome.reason] += 1
        return outcome

    def _answer(self, task: Task) -> Outcome:
        roll = self.rng.random() if self.trouble else 1.0
        if roll < 0.03:
            return Outcome(Reason.RATE_LIMITED, wait=30.0)
        if roll < 0.08:
            return Outcome(Reason.NOT_FOUND)
        if roll < 0.12:
            return Outcome(Reason.UNAVAILABLE)
        if roll < 0.14:
            self.answers[Reason.UNKNOWN] += 1
            raise ZeroDivisionError("a bug in the handler")
        return Outcome(Reason.OK, items=[task.key])


class Setup:
    """One crawl with all its parts in reach; must be made inside the loop."""

    def __init__(
        self,
        pages: Sequence[Page],
        *,
        handler: Handler[Any] | None = None,
        workers: int = 8,
        manners: Manners | None = None,
        store: Any = None,
        **limits: Any,
    ) -> None:
        self.clock = SimClock()
        self.gate = Gate(self.clock, manners or Manners())
        self.world = World(self.clock, self.gate)
        self.store = store or MemoryStore()
        self.sink = DictSink()
        self.source = ListSource(pages)
        self.control = Control(workers)
        self.limits = Limits(**limits)
        self.handler = handler or self.world

    async def run(self) -> Ending:
        feed = Feed(self.source, self.store)
        parts = Parts(feed, self.store, self.handler, self.sink, self.gate, self.clock)
        return await crawl(parts, self.limits, self.control)
