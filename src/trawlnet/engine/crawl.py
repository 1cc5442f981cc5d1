"""The crawl: feed, dispatch, work, settle. Read this first, then `dispatch` and `settle`."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trawlnet.engine.control import Control, Ending
from trawlnet.engine.dispatch import dispatch
from trawlnet.engine.floor import Done, Feed, Floor, Limits, Parts
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Again, N, Outcome, Reason
from trawlnet.engine.ports import Counts, Frontier, Page, Source
from trawlnet.engine.settle import settle
from trawlnet.engine.task import Task

__all__ = ["Feed", "Limits", "Parts", "crawl"]

log = logging.getLogger(__name__)


async def crawl(parts: Parts[N], limits: Limits, control: Control) -> Ending:
    """Run until the source is exhausted and every task is settled, or until drained."""
    parts.gate.closing = lambda: control.ending is Ending.DRAINED
    try:
        async with asyncio.TaskGroup() as group:
            floor = Floor(parts, limits, control, group)
            control.figures.lanes = floor.agenda
            feeding = group.create_task(_feed(floor, parts.feed))
            renewing = group.create_task(_renew(floor))
            settling = group.create_task(settle(floor))
            companions = [group.create_task(run(control)) for run in parts.companions]
            await dispatch(floor, _work)
            for helper in (feeding, renewing, *companions):
                helper.cancel()
            await floor.done.put(None)
            await settling
    except BaseExceptionGroup as troubles:
        raise _first(troubles) from troubles
    return control.ending or Ending.DONE


async def _feed(floor: Floor, feed: Feed | None) -> None:
    if feed is not None:
        await _feed_from(floor, feed.source, feed.frontier)
    floor.figures.source_dry = True
    floor.control.changed.set()


async def _feed_from(floor: Floor, source: Source, frontier: Frontier | None) -> None:
    """Pull pages from the source, no faster than the store is worked off."""
    agenda, figures = floor.agenda, floor.figures
    async for page in source.pages(await frontier.cursor() if frontier else None):
        figures.fed += await frontier.feed(page) if frontier else len(page.tasks)
        for lane, tasks in Counter(task.lane for task in page.tasks).items():
            agenda.count(lane, tasks)
        for lane, due in _earliest(page).items():
            agenda.note(lane, due)
        floor.control.changed.set()
        while _is_enough(floor, await floor.parts.store.counts()):
            await _relieved(floor)


async def _relieved(floor: Floor) -> None:
    """Wait until a task was settled here, or may have been by a process that shares the store."""
    floor.relief.clear()
    try:
        async with asyncio.timeout(floor.limits.lease / 4):
            await floor.relief.wait()
    except TimeoutError:
        pass


def _is_enough(floor: Floor, counts: Counts) -> bool:
    """Whether the source should wait. Tasks on blocked lanes do not count, because waiting does
    not reduce them; and a few lanes cannot use all workers, so the source looks for others."""
    limits, left = floor.limits, counts.open - counts.blocked
    if floor.agenda.with_work() < limits.few_lanes:
        return left > limits.highest_water
    return left > limits.high_water


def _earliest(page: Page) -> Mapping[str, float]:
    dues: dict[str, float] = {}
    for task in page.tasks:
        dues[task.lane] = min(task.due, dues.get(task.lane, math.inf))
    return dues


async def _work(floor: Floor, task: Task) -> None:
    """One try at one task, from lease to outcome."""
    outcome = await _try(floor, task)
    hold = floor.parts.gate.observe(outcome.lane or task.lane, outcome)
    floor.crew.leave_lane(task.lane)
    made_room = floor.agenda.made_room(task.lane)
    # The worker stays taken until the sink has room: this is the back-pressure.
    await floor.done.put(Done(task, outcome, hold))
    # The dispatcher need not run if it waits neither for this lane nor for a free worker.
    if made_room or not floor.free:
        floor.control.changed.set()
    floor.crew.free_worker()


async def _try(floor: Floor, task: Task) -> Outcome[Any]:
    try:
        return await floor.parts.handler(task)
    except LaneParked as parked:
        if parked.until == math.inf and parked.lane != task.lane:
            # The task was redirected to a host that is blocked in this run: do not wait.
            why = f"lane {parked.lane} is blocked"
            return Outcome(Reason.BLOCKED, lane=parked.lane, detail=why)
        wait = parked.until - floor.parts.clock.now()
        detail = f"lane {parked.lane} is parked"
        # Many tasks may need one server besides their own. As long as it answers, each has its
        # turn in the end, and none is given up because others had theirs before.
        is_queued = parked.lane != task.lane and floor.parts.gate.is_answering(parked.lane)
        again = Again.QUEUED if is_queued else None
        return Outcome(Reason.PARKED, wait=wait, again=again, detail=detail)
    except Exception as error:  # The one broad except: a bug costs a task, not the crawl.
        log.exception("handler failed", extra={"key": task.key, "lane": task.lane})
        return Outcome(Reason.UNKNOWN, detail=f"{type(error).__name__}: {error}"[:200])


async def _renew(floor: Floor) -> None:
    while True:
        await floor.parts.clock.sleep(floor.limits.lease / 3)
        if held := list(floor.crew.held):
            now = floor.parts.clock.now()
            await floor.parts.store.renew(held, now, floor.limits.lease)


def _first(troubles: BaseExceptionGroup[Any]) -> BaseException:
    """The error that stopped the crawl, without the group around it."""
    trouble: BaseException = troubles
    while isinstance(trouble, BaseExceptionGroup):
        trouble = trouble.exceptions[0]
    return trouble
