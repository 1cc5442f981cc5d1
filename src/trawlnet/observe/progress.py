"""The progress of a crawl at one instant: a snapshot, computed from the engine's counters."""

from __future__ import annotations

import math
import resource
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Parts
from trawlnet.engine.gate import LaneState
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts
from trawlnet.observe.lanes import LaneCondition, condition, shown
from trawlnet.observe.metrics.crawl import TimedHandler


class Phase(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class LaneLook:
    """One lane worth showing; the name is already safe to show."""

    lane: str
    condition: LaneCondition
    why: str  # The reason that parked it; empty if it is not parked.
    wait: float  # Seconds until its hold ends; infinity if blocked, 0 if not held.
    rate: float  # Requests per second that it may get now.
    failures: int  # In a row.
    longest: float  # Seconds that its oldest running task has taken.


@dataclass(frozen=True, slots=True)
class Snapshot:
    crawler: str
    phase: Phase
    elapsed: float
    done: int  # Settled keys, and keys scheduled for another visit, over all runs.
    done_this_run: int
    open: int
    blocked: int
    known: int
    attempts: int  # In this run.
    rate: float  # Keys settled per second, over the last minute.
    eta: float | None  # Seconds; None if it cannot be estimated.
    errors: Mapping[Reason, int]  # Failed attempts of this run, most frequent first.
    in_flight: int
    workers: int
    lanes: Mapping[LaneCondition, int]
    held: Sequence[LaneLook]  # Parked and blocked lanes, the longest wait first.
    slow: Sequence[LaneLook]  # Lanes whose tasks take longest, or that were slowed down.
    memory: int  # Bytes in memory that are not mapped files; 0 if the system does not report it.
    yields: Mapping[str, int] = field(default_factory=dict)  # The results of this run.


class ProgressMeter:
    """Takes snapshots; keeps the marks of the last minute, to measure speeds."""

    def __init__(
        self,
        crawler: str,
        parts: Parts[Any],
        control: Control,
        yields: Mapping[str, int] | None = None,
    ) -> None:
        self._crawler = crawler
        self._yields = {} if yields is None else yields
        self._parts = parts
        self._control = control
        self._figures = control.figures
        self._begun = parts.clock.now()
        self._past: deque[_Mark] = deque(maxlen=_MARKS)
        self._lanes = _Lanes({}, (), (), -math.inf)
        self._share_at_first: float | None = None  # The share of keys that the source had listed.
        self.ended = False

    async def snapshot(self) -> Snapshot:
        """A snapshot with the lanes that are worth showing."""
        now = self._parts.clock.now()
        if now >= self._lanes.stale_at:
            self._lanes = _look_at_lanes(self._parts.gate.states(), self._running(), now)
        return await self.figures()

    async def figures(self) -> Snapshot:
        """The same at less cost: the lanes are those of an earlier snapshot, if there was one."""
        counts, now = await shown_counts(self._parts), self._parts.clock.now()
        control, mark = self._control, _mark(now, counts)
        if not self._past or now - self._past[-1].at >= _MARK_EVERY:
            self._past.append(mark)
        rate, drain = _speeds(self._past[0], mark)
        return Snapshot(
            crawler=self._crawler,
            phase=Phase.ENDED if self.ended else _phase(control),
            elapsed=now - self._begun,
            done=mark.done,
            done_this_run=sum(control.figures.settled.values()),
            open=counts.open,
            blocked=counts.blocked,
            known=counts.known,
            attempts=sum(control.figures.tally.values()),
            rate=rate,
            eta=self._eta(counts, rate, drain),
            errors={r: n for r, n in control.figures.tally.most_common() if n and not r.success},
            in_flight=control.figures.in_flight,
            workers=control.shown_workers,
            lanes=self._lanes.conditions,
            held=self._lanes.held,
            slow=self._lanes.slow,
            memory=anonymous_bytes(),
            yields=dict(self._yields),
        )

    def _eta(self, counts: Counts, rate: float, drain: float) -> float | None:
        """At least the time of the longest lane. Once the source is exhausted, from the net speed:
        a crawl that finds more than it does cannot be estimated."""
        left, unnamed = counts.open - counts.blocked, self._unnamed()
        if unnamed is None:
            return None
        if left + unnamed <= 0:
            return 0.0
        speed = drain if self._figures.source_dry else rate
        return max((left + unnamed) / speed, self._figures.lanes.longest()) if speed > 0.0 else None

    def _unnamed(self) -> float | None:
        """An estimate of the keys that the source has yet to list, if it can tell."""
        if self._figures.source_dry:
            return 0.0
        share = self._parts.share_named()
        if share is None:
            return None
        if self._share_at_first is None:
            self._share_at_first = share
        named = share - self._share_at_first
        return self._figures.fed * (1.0 - share) / named if named > 0.0 else None

    def _running(self) -> Mapping[str, tuple[str, float]]:
        handler = self._parts.handler
        return handler.running if isinstance(handler, TimedHandler) else {}


async def shown_counts(parts: Parts[Any]) -> Counts:
    return await (parts.store.counts() if parts.outlook is None else parts.outlook())


@dataclass(frozen=True, slots=True)
class _Mark:
    at: float
    done: int
    open: int


_MARK_EVERY = 1.0
_MARKS = 60  # One minute: long enough to be steady, short enough to be current.


def _mark(now: float, counts: Counts) -> _Mark:
    done = sum(counts.settled.values()) + counts.scheduled
    return _Mark(now, done, counts.open - counts.blocked)


def _speeds(before: _Mark, now: _Mark) -> tuple[float, float]:
    """Per second: keys settled, and the decrease of open keys."""
    seconds = now.at - before.at
    if seconds <= 0.0:
        return 0.0, 0.0
    return max(0, now.done - before.done) / seconds, (before.open - now.open) / seconds


def _phase(control: Control) -> Phase:
    if control.ending:
        return Phase.DRAINING
    return Phase.PAUSED if control.paused else Phase.RUNNING


@dataclass(frozen=True, slots=True)
class _Lanes:
    conditions: Mapping[LaneCondition, int]
    held: Sequence[LaneLook]
    slow: Sequence[LaneLook]
    stale_at: float  # Reading costs time for each lane, so it happens less often if there are many.


_LANES_SHOWN = 5
_LANES_PER_SECOND = 5_000  # Lanes read; measured at 1.7 µs a lane, one hundredth of a core.


def _look_at_lanes(
    states: Sequence[LaneState], running: Mapping[str, tuple[str, float]], now: float
) -> _Lanes:
    since: dict[str, float] = {}
    for lane, begun in running.values():
        since[lane] = min(begun, since.get(lane, now))
    conditions = dict.fromkeys(LaneCondition, 0)
    held: list[tuple[float, LaneState]] = []
    slow: list[tuple[float, LaneState]] = []
    for state in states:
        word = condition(state, now)
        conditions[word] += 1
        if word in (LaneCondition.PARKED, LaneCondition.BLOCKED):
            held.append((-state.parked, state))
        elif word is LaneCondition.SLOWED or now - since.get(state.lane, now) >= _SLOW_AFTER:
            slow.append((since.get(state.lane, now), state))
    return _Lanes(
        conditions,
        [_look(state, since, now) for state in _first(held)],
        [_look(state, since, now) for state in _first(slow)],
        now + len(states) / _LANES_PER_SECOND,
    )


_SLOW_AFTER = 5.0  # Seconds that a task may take before its lane is worth a line.


def _first(ranked: list[tuple[float, LaneState]]) -> list[LaneState]:
    ranked.sort(key=lambda pair: (pair[0], pair[1].lane))
    return [state for _, state in ranked[:_LANES_SHOWN]]


def _look(state: LaneState, since: Mapping[str, float], now: float) -> LaneLook:
    return LaneLook(
        lane=shown(state.lane),
        condition=condition(state, now),
        why=state.why,
        wait=max(0.0, state.parked - now),
        rate=state.rate,
        failures=state.failures,
        longest=now - since.get(state.lane, now),
    )


_STATM = Path("/proc/self/statm")


def anonymous_bytes() -> int:
    """The memory that only this process uses. The pages of a mapped store do not count: they are in
    the system's cache, which frees them on demand."""
    try:
        _, resident, shared, *_ = _STATM.read_bytes().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()
