"""Toy hosts with habits, and a store and a sink that take their time: what a crawl is run in.

Everything that crosses an edge of the engine is written down in one list, in the order in which
it happened; `engine_law` reads it. Nothing here knows what the engine makes of it.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock, Counts, Lease, Ledger, Page
from trawlnet.engine.rules import Manners
from trawlnet.engine.task import Task


class Habit(StrEnum):
    """What a host does with a request."""

    SERVE = "serve"
    LINK = "link"  # Serves, and names other keys.
    AGAIN = "again"  # Serves, and wants to be asked again.
    GONE = "gone"
    BUSY = "busy"
    DOWN = "down"
    HANG = "hang"
    CUT = "cut"
    EARLY = "early"
    ELSEWHERE = "elsewhere"  # Sends on to another host, which is down.
    BUG = "bug"  # The handler raises.
    FULL = "full"  # Our own disk.
    ODD = "odd"  # Names a key that no store can keep.


REASONS = {
    Habit.SERVE: Reason.OK,
    Habit.LINK: Reason.OK,
    Habit.AGAIN: Reason.OK,
    Habit.GONE: Reason.NOT_FOUND,
    Habit.BUSY: Reason.RATE_LIMITED,
    Habit.DOWN: Reason.UNAVAILABLE,
    Habit.HANG: Reason.TIMEOUT,
    Habit.CUT: Reason.TRUNCATED,
    Habit.EARLY: Reason.NOT_YET,
    Habit.ELSEWHERE: Reason.CONNECTION_ERROR,
    Habit.FULL: Reason.NO_SPACE,
    Habit.ODD: Reason.OK,
}


@dataclass(frozen=True, slots=True)
class Spell:
    """So many requests in a row that are answered alike."""

    habit: Habit
    requests: int
    seconds: float  # Until the answer.
    wait: float | None = None  # What the host says about when to come back.


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    spells: tuple[Spell, ...]
    connect: tuple[float, ...]  # Seconds from the turn to the first byte, one after the other.
    manners: Manners | None = None  # Its own, if not those of all.


@dataclass(frozen=True, slots=True)
class World:
    hosts: tuple[Host, ...]
    pages: tuple[tuple[Task, ...], ...]
    links: tuple[Task, ...]  # What LINK names, a few at a time, over and over.
    page_seconds: float
    write_seconds: float
    call_seconds: tuple[float, ...]  # How long calls of the store take, one after the other.


@dataclass(slots=True)
class Request:
    """One request as its host saw it."""

    lane: str
    key: str
    asked: int  # When it asked for its turn: its place among the events.
    left: float = math.nan


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    what: str
    lane: str = ""
    key: str = ""
    request: Request | None = None
    task: Task | None = None
    outcome: Outcome | None = None
    page: Page | None = None
    keys: tuple[tuple[str, Reason], ...] = ()  # With the word that was written down.


@dataclass(slots=True)
class Doom:
    """Kills a crawl at one of its steps over an edge."""

    at: int | None
    step: int = 0
    dead: bool = False
    victim: asyncio.Task[Any] | None = None

    async def passes(self) -> None:
        self.step += 1
        if self.step == self.at and self.victim is not None:
            self.dead = True
            self.victim.cancel()
        if self.dead:
            await asyncio.Event().wait()  # Whoever waits here is cancelled.


@dataclass(slots=True)
class Stage:
    """What outlives a crawl: hosts with their memory, the rows that were written, the events."""

    world: World
    clock: Clock
    events: list[Event] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)  # Requests by host.
    serial: int = 0
    linked: int = 0
    rows: dict[str, list[Any]] = field(default_factory=dict)
    holds: dict[str, float] = field(default_factory=dict)  # As the store has them.
    judge: Callable[[int, Event], None] = lambda number, event: None
    wrongs: list[AssertionError] = field(default_factory=list)

    def note(self, what: str, **more: Any) -> None:
        """Judged at once, while the rows are those of this instant; the engine must not see how,
        or it would take it for trouble of its own."""
        event = Event(self.clock.now(), what, **more)
        self.events.append(event)
        try:
            self.judge(len(self.events), event)
        except AssertionError as wrong:
            self.wrongs.append(wrong)


class StageHandler:
    def __init__(self, stage: Stage, gate: Gate, doom: Doom) -> None:
        self._stage = stage
        self._gate = gate
        self._doom = doom
        self._hosts = {host.name: host for host in stage.world.hosts}

    async def __call__(self, task: Task) -> Outcome:
        stage = self._stage
        stage.note("begun", lane=task.lane, key=task.key, task=task)
        outcome = Outcome(Reason.UNKNOWN)
        try:
            outcome = await self._visit(task)
            return outcome
        except LaneParked as parked:
            wait = parked.until - stage.clock.now()
            outcome = Outcome(Reason.PARKED, wait=wait, lane=parked.lane)
            if parked.until == math.inf and parked.lane != task.lane:
                # Sent on to a host that was given up: there is nothing to wait for.
                outcome = Outcome(Reason.BLOCKED, lane=parked.lane)
            raise
        finally:
            if not self._doom.dead:
                stage.note("ended", lane=task.lane, key=task.key, outcome=outcome)

    async def _visit(self, task: Task) -> Outcome:
        stage, host = self._stage, self._hosts[task.lane]
        spell = await self._request(task.lane, task.key)
        if spell.habit is Habit.BUG:
            raise ZeroDivisionError("a bug in the handler")
        reason = REASONS[spell.habit]
        if spell.habit is Habit.ELSEWHERE:
            other = self._next_to(host.name)
            await self._request(other, task.key)
            return Outcome(reason, wait=spell.wait, lane=other)
        if reason is not Reason.OK:
            return Outcome(reason, wait=spell.wait)
        stage.serial += 1
        return Outcome(
            reason,
            items=[(task.key, stage.serial)],
            found=self._found(spell.habit),
            again_in=(spell.wait or 1.0) if spell.habit is Habit.AGAIN else None,
        )

    async def _request(self, lane: str, key: str) -> Spell:
        stage, host = self._stage, self._hosts[lane]
        request = Request(lane, key, len(stage.events) + 1)
        stage.note("asked", lane=lane, key=key, request=request)
        async with self._gate.turn(lane) as turn:
            stage.note("entered", lane=lane, key=key, request=request)
            nth = stage.asked[lane]
            stage.asked[lane] += 1
            try:
                await self._doom.passes()
                await stage.clock.sleep(host.connect[nth % len(host.connect)])
                await turn.leave()
                request.left = stage.clock.now()
                stage.note("left", lane=lane, key=key, request=request)
                spell = _spell(host, nth)
                await stage.clock.sleep(spell.seconds)
            finally:
                if not self._doom.dead:
                    stage.note("closed", lane=lane, key=key, request=request)
        return spell

    def _next_to(self, name: str) -> str:
        names = list(self._hosts)
        return names[(names.index(name) + 1) % len(names)]

    def _found(self, habit: Habit) -> Sequence[Task]:
        if habit is Habit.ODD:
            return [Task("\ud800", self._stage.world.hosts[0].name)]
        links = self._stage.world.links
        if habit is not Habit.LINK or not links:
            return ()
        self._stage.linked += 2
        return [links[(self._stage.linked + n) % len(links)] for n in range(2)]


def _spell(host: Host, nth: int) -> Spell:
    for spell in host.spells:
        if nth < spell.requests:
            return spell
        nth -= spell.requests
    return Spell(Habit.SERVE, 1, 0.1)


class StageSource:
    def __init__(self, stage: Stage, doom: Doom) -> None:
        self._stage = stage
        self._doom = doom

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        for number, tasks in enumerate(self._stage.world.pages):
            cursor = f"{number:04}"
            if after is None or cursor > after:
                self._stage.note("listed")
                await self._doom.passes()
                await self._stage.clock.sleep(self._stage.world.page_seconds)
                yield Page(tasks, cursor)


class StageSink:
    """Durable when `write` returns; what a kill cuts short may be there in part."""

    def __init__(self, stage: Stage, doom: Doom) -> None:
        self._stage = stage
        self._doom = doom

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        await self._doom.passes()
        await self._stage.clock.sleep(self._stage.world.write_seconds)
        for task, items in batch:
            await self._doom.passes()
            self._stage.rows[task.key] = list(items)


class StageStore:
    """A store with the delay of a distant one, before and after what it does."""

    def __init__(self, store: Ledger, stage: Stage, doom: Doom) -> None:
        self._store = store
        self._stage = stage
        self._doom = doom
        self._calls = 0

    async def _delay(self) -> None:
        await self._doom.passes()
        delays = self._stage.world.call_seconds
        self._calls += 1
        if seconds := delays[self._calls % len(delays)]:
            await self._stage.clock.sleep(seconds)
            await self._doom.passes()

    async def cursor(self) -> str | None:
        await self._delay()
        return await self._store.cursor()

    async def feed(self, page: Page) -> int:
        await self._delay()
        new = await self._store.feed(page)
        self._stage.note("fed", page=page)
        await self._delay()
        return new

    async def lanes(self, after: str | None, limit: int) -> Any:
        await self._delay()
        return await self._store.lanes(after, limit)

    async def lease(self, wants: Any, now: float, ttl: float) -> Lease:
        await self._delay()
        leased = await self._store.lease(wants, now, ttl)
        self._stage.note("leased", keys=tuple((t.key, Reason.OK) for t in leased.tasks))
        await self._delay()
        return leased

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        await self._delay()
        await self._store.renew(keys, now, ttl)

    async def settle(self, receipts: Sequence[Any]) -> None:
        await self._delay()
        await self._store.settle(receipts)
        words = tuple((one.task.key, one.reason) for one in receipts)
        self._stage.note("settled", keys=words)
        await self._delay()

    async def hold(self, lane: str, until: float) -> None:
        await self._delay()
        await self._store.hold(lane, until)
        self._stage.holds[lane] = until
        await self._delay()

    async def holds(self, now: float) -> Mapping[str, float]:
        await self._delay()
        return await self._store.holds(now)

    async def counts(self) -> Counts:
        await self._delay()
        return await self._store.counts()
