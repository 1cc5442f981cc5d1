"""Traces single tasks through a crawl, by wrappers around its parts.

Steps are collected as plain data and passed on when the task is settled. Tasks that are not sampled
collect nothing.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from trawlnet.engine.crawl import Parts
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import N, Outcome, Receipt
from trawlnet.engine.ports import Clock, Counts, Handler, LaneWork, Lease, Sink, Work
from trawlnet.engine.task import Task
from trawlnet.net.http import Leaving, Turns

_MOST_STEPS = 100  # Steps of one task; a scan may send thousands of requests.
_MANY = ("gate", "fetch")  # Steps that may repeat; any other occurs once.


class TraceStep(NamedTuple):
    name: str  # lease, gate, fetch, parse, handle, write or settle.
    begun: float
    ended: float
    lane: str = ""


@dataclass(slots=True)
class Way:
    """One attempt at a task, in progress."""

    task: Task
    steps: list[TraceStep]
    left_out: int = 0
    fetched: float = 0.0  # When the last answer was complete.

    def add(self, step: TraceStep) -> None:
        if len(self.steps) < _MOST_STEPS or step.name not in _MANY:
            self.steps.append(step)
        else:
            self.left_out += 1


@dataclass(frozen=True, slots=True)
class AttemptTrace:
    """A finished attempt, from lease to settlement."""

    task: Task
    steps: Sequence[TraceStep]
    left_out: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Choice:
    ratio: float = 1.0  # Share of keys; all attempts of a key are traced, or none.
    per_second: int = 50  # Traces begun per second, at most.
    open: int = 2000  # Traces in progress, at most.


class Ways:
    """The tasks that are being traced, by key."""

    def __init__(self, clock: Clock, done: Callable[[AttemptTrace], None], choice: Choice) -> None:
        self.clock = clock
        self._done = done
        self._choice = choice
        self._open: dict[str, Way] = {}
        self._second = 0
        self._begun = 0

    def of(self, key: str) -> Way | None:
        return self._open.get(key)

    def begin(self, task: Task, step: TraceStep) -> None:
        if self._chosen(task.key, math.floor(step.ended)):
            self._open[task.key] = Way(task, [step])

    def end(self, receipt: Receipt[Any], step: TraceStep) -> None:
        way = self._open.pop(receipt.task.key, None)
        if way is not None:
            way.add(step)
            reason, detail = str(receipt.reason), receipt.detail
            self._done(AttemptTrace(way.task, tuple(way.steps), way.left_out, reason, detail))

    def _chosen(self, key: str, second: int) -> bool:
        if second != self._second:
            self._second, self._begun = second, 0
        choice = self._choice
        if self._begun >= choice.per_second or len(self._open) >= choice.open:
            return False
        share = zlib.crc32(key.encode("utf-8", "surrogatepass")) / 2**32
        if share >= choice.ratio:
            return False
        self._begun += 1
        return True


# The task of the current request. Set only around the handler of a traced task.
_now: ContextVar[Way | None] = ContextVar("way", default=None)


def traced(parts: Parts[N], ways: Ways | None) -> Parts[N]:
    if ways is None:
        return parts
    return replace(
        parts,
        store=TracedStore(parts.store, ways),
        handler=TracedHandler(parts.handler, ways),
        sink=None if parts.sink is None else TracedSink(parts.sink, ways),
    )


def traced_turns(turns: Turns, ways: Ways | None) -> Turns:
    """For `Http`: the wait at the gate and the request become two steps."""
    return turns if ways is None else TracedTurns(turns, ways)


@dataclass(frozen=True, slots=True)
class TracedHandler:
    handler: Handler[Any]
    ways: Ways

    async def __call__(self, task: Task) -> Outcome[Any]:
        way = self.ways.of(task.key)
        if way is None:
            return await self.handler(task)
        clock, token = self.ways.clock, _now.set(way)
        begun = clock.now()
        try:
            return await self.handler(task)
        finally:
            _now.reset(token)
            ended = clock.now()
            if way.fetched:
                way.add(TraceStep("parse", way.fetched, ended))
            way.add(TraceStep("handle", begun, ended))


@dataclass(frozen=True, slots=True)
class TracedTurns:
    turns: Turns
    ways: Ways

    def turn(self, lane: str) -> AbstractAsyncContextManager[Leaving]:
        way = _now.get()
        inner = self.turns.turn(lane)
        return inner if way is None else _TracedTurn(inner, way, self.ways.clock, lane)


class _TracedTurn:
    __slots__ = ("_begun", "_clock", "_inner", "_lane", "_way")

    def __init__(
        self, inner: AbstractAsyncContextManager[Leaving], way: Way, clock: Clock, lane: str
    ) -> None:
        self._inner = inner
        self._way = way
        self._clock = clock
        self._lane = lane

    async def __aenter__(self) -> Leaving:
        begun = self._clock.now()
        try:
            entered = await self._inner.__aenter__()
        except LaneParked:
            self._way.add(TraceStep("gate", begun, self._clock.now(), self._lane))
            raise
        self._begun = self._clock.now()
        self._way.add(TraceStep("gate", begun, self._begun, self._lane))
        return entered

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._way.fetched = ended = self._clock.now()
        self._way.add(TraceStep("fetch", self._begun, ended, self._lane))
        return await self._inner.__aexit__(kind, error, trace)


@dataclass(frozen=True, slots=True)
class TracedSink:
    sink: Sink
    ways: Ways

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        begun = self.ways.clock.now()
        await self.sink.write(batch)
        step = TraceStep("write", begun, self.ways.clock.now())
        for task, _ in batch:
            if (way := self.ways.of(task.key)) is not None:
                way.add(step)


@dataclass(frozen=True, slots=True)
class TracedStore:
    """Only lease and settle are steps of a trace."""

    store: Work[Any]
    ways: Ways

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        return await self.store.lanes(after, limit)

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        begun = self.ways.clock.now()
        lease = await self.store.lease(wants, now, ttl)
        step = TraceStep("lease", begun, self.ways.clock.now())
        for task in lease.tasks:
            self.ways.begin(task, step)
        return lease

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        await self.store.renew(keys, now, ttl)

    async def settle(self, receipts: Sequence[Receipt[Any]]) -> None:
        begun = self.ways.clock.now()
        await self.store.settle(receipts)
        step = TraceStep("settle", begun, self.ways.clock.now())
        for receipt in receipts:
            self.ways.end(receipt, step)

    async def hold(self, lane: str, until: float) -> None:
        await self.store.hold(lane, until)

    async def holds(self, now: float) -> Mapping[str, float]:
        return await self.store.holds(now)

    async def counts(self) -> Counts:
        return await self.store.counts()


if TYPE_CHECKING:
    _WORK: type[Work] = TracedStore
