"""The dispatcher: chooses which lanes start tasks now and how many, and when the crawl is done."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

from trawlnet.engine.control import Ending
from trawlnet.engine.floor import Floor
from trawlnet.engine.task import Task

Try = Callable[[Floor, Task], Coroutine[None, None, None]]


@dataclass(slots=True)
class _Listing:
    """How far the store's lanes have been listed, and when to list them again."""

    orphans_at: float  # When the leases of a dead process have ended.
    after: str | None = None


async def dispatch(floor: Floor, work: Try) -> None:
    """Start tasks that may run; sleep until a lane is due or something changes."""
    listing = _Listing(orphans_at=floor.born + floor.limits.lease)
    await _forgive_blocked_lanes(floor, listing)
    while True:
        # Cleared before looking, so that the wait below notices every later change.
        floor.control.changed.clear()
        for lane in floor.control.woken():
            floor.agenda.note(lane, 0.0)
        for lane in floor.parts.gate.take_faster():
            floor.agenda.hasten(lane)
        if floor.control.relist:
            await _list_again(floor, listing)
        if floor.parts.clock.now() >= listing.orphans_at:
            await _list_orphans(floor, listing)
        if wants := _pick(floor):
            await _start(floor, wants, work)
        elif await _finished(floor, listing):
            return
        else:
            await _until(floor, listing, _next_look(floor, listing))


def _pick(floor: Floor) -> dict[str, int]:
    """How many tasks to lease from each lane that is due, shared fairly among free workers."""
    free, gate, agenda, busy = floor.free, floor.parts.gate, floor.agenda, floor.crew.busy
    if not free:
        return {}
    now = floor.parts.clock.now()
    horizon = now + floor.limits.ahead
    room: dict[str, int] = {}
    lanes = agenda.schedule.take(now, floor.limits.gather)
    while len(room) < free and (lane := next(lanes, None)) is not None:
        if gate.ready_at(lane) > horizon + _TICK:
            agenda.note(lane, now)
        elif (places := gate.room(lane) - busy.get(lane, 0)) > 0:
            room[lane] = min(places, max(1, gate.allowance(lane, horizon)))
        else:
            agenda.wait_for_room(lane)
    share = max(1, free // len(room)) if room else 0
    wants = {lane: min(places, share) for lane, places in room.items()}
    return _leaving_some(floor, wants, free, now)


def _leaving_some(floor: Floor, wants: dict[str, int], free: int, now: float) -> dict[str, int]:
    """Give a lane its second and further workers only while some are left for lanes that have work
    and no worker: otherwise lanes of slow servers would occupy all workers for long."""
    workers, busy = floor.control.workers, floor.crew.busy
    most = max(1, workers // _RESERVED_SHARE) if workers > 1 else 0
    if not wants or free - sum(wants.values()) >= most:
        return wants  # Enough workers are left for any number of lanes.
    reserved = floor.agenda.schedule.soon(now + _SOON, most, (busy, wants))
    firsts = {lane: int(lane not in busy) for lane in wants}
    further = max(0, free - sum(firsts.values()) - reserved)
    granted: dict[str, int] = {}
    for lane, want in wants.items():
        more = min(want - firsts[lane], further)
        further -= more
        if first_and_more := firsts[lane] + more:
            granted[lane] = first_and_more
        else:
            floor.agenda.wait_for_room(lane)
    return granted


_RESERVED_SHARE = 4  # One worker in this many is reserved for lanes without a worker
_SOON = 2.0  # that have work within this many seconds.


async def _start(floor: Floor, wants: Mapping[str, int], work: Try) -> None:
    lease = await floor.parts.store.lease(wants, floor.parts.clock.now(), floor.limits.lease)
    for task in lease.tasks:
        floor.agenda.took(task.lane, emptied=task.lane in lease.dues)
        floor.crew.start(task)
        floor.group.create_task(work(floor, task))
    for lane in wants:
        # The lease says when a lane that had too few tasks has more; any other lane has more now.
        floor.agenda.note(lane, lease.dues.get(lane, 0.0))


async def _finished(floor: Floor, listing: _Listing) -> bool:
    control, limits = floor.control, floor.limits
    if not control.ending and _limit_reached(floor):
        control.drain(Ending.LIMIT)
    # Even while other tasks run: a task that hangs must not delay the rest.
    if floor.agenda.schedule.overflowed and not control.ending and _has_room(floor):
        await _list_lanes(floor, listing)
        return False
    if floor.crew.held:
        return False
    if control.ending:
        return True
    if not floor.figures.source_dry or limits.follow:
        return False
    counts = await floor.parts.store.counts()
    if counts.open != counts.blocked:
        return False
    return not counts.scheduled or not await _has_due(floor)


async def _has_due(floor: Floor) -> bool:
    """Whether a lane has a revisit that was due when the crawl began; a revisit counts as open only
    once it is leased. Later ones are left to the next run, or this one might never end."""
    after: str | None = None
    while lanes := await floor.parts.store.lanes(after, _LANES_AT_ONCE):
        for work in lanes:
            if work.due <= floor.born and work.held < math.inf and floor.parts.owns(work.lane):
                return True
        after = lanes[-1].lane
    return False


def _has_room(floor: Floor) -> bool:
    return len(floor.agenda.schedule) < max(1, floor.limits.lanes // 2)


def _limit_reached(floor: Floor) -> bool:
    most, parts = floor.limits.most_tasks, floor.parts
    if most is not None and floor.figures.started >= most:
        return True
    return parts.clock.now() >= floor.deadline or parts.enough()


def _next_look(floor: Floor, listing: _Listing) -> float:
    """When to look again if nothing changes before."""
    if floor.control.ending:
        return math.inf
    if floor.free == 0:
        return floor.deadline
    # An empty schedule with open tasks: another process has leased them, and may have died.
    alone = floor.crew.held or len(floor.agenda.schedule)
    idle = math.inf if alone else floor.parts.clock.now() + floor.limits.lease / 4
    return min(floor.agenda.schedule.next(), idle, floor.deadline, listing.orphans_at)


async def _until(floor: Floor, listing: _Listing, when: float) -> None:
    if when == math.inf:
        await floor.control.changed.wait()
        return
    try:
        async with asyncio.timeout(max(_TICK, when - floor.parts.clock.now())):
            await floor.control.changed.wait()
    except TimeoutError:
        if not len(floor.agenda.schedule) and not floor.crew.held:
            await _list_lanes(floor, listing)


_TICK = 1e-4  # Seconds; a shorter wait than this may round to no wait at all, for ever.


async def _forgive_blocked_lanes(floor: Floor, listing: _Listing) -> None:
    """Unblock all lanes at the start of a run, and list the lanes that the last run left."""
    store, gate = floor.parts.store, floor.parts.gate
    for lane, until in (await store.holds(floor.parts.clock.now())).items():
        if until == math.inf:
            await store.hold(lane, 0.0)
        else:
            gate.park(lane, max(until, gate.parked(lane)))
    await _list_lanes(floor, listing)


async def _list_orphans(floor: Floor, listing: _Listing) -> None:
    """List lanes whose tasks a dead process had leased when this run began: the leases have ended
    by now, and no lease reports that. A listing in progress reaches those lanes anyway."""
    listing.orphans_at = math.inf
    if listing.after is None:
        await _list_lanes(floor, listing)


async def _list_again(floor: Floor, listing: _Listing) -> None:
    """List all lanes again: reopened tasks may be on lanes that are blocked in this run."""
    floor.control.relist = False
    gate, after = floor.parts.gate, None
    while lanes := await floor.parts.store.lanes(after, _LANES_AT_ONCE):
        for work in lanes:
            if work.held == 0.0 and gate.blocked(work.lane):
                gate.park(work.lane, 0.0)
        after = lanes[-1].lane
    listing.after = None
    await _list_lanes(floor, listing)


async def _list_lanes(floor: Floor, listing: _Listing) -> None:
    """Put the store's lanes on the schedule, from where the last listing had to stop."""
    agenda, schedule = floor.agenda, floor.agenda.schedule
    schedule.overflowed = False
    while not schedule.overflowed:
        lanes = await floor.parts.store.lanes(listing.after, _LANES_AT_ONCE)
        for work in lanes:
            # The gate may know a later hold that is just being written to the store.
            if work.held > max(floor.parts.clock.now(), floor.parts.gate.ready_at(work.lane)):
                floor.parts.gate.park(work.lane, work.held)
            agenda.count(work.lane, max(0, work.open - agenda.queued(work.lane)))
            agenda.note(work.lane, work.due)
            if schedule.overflowed:
                return
            listing.after = work.lane
        if len(lanes) < _LANES_AT_ONCE:
            listing.after = None
            return


_LANES_AT_ONCE = 1000
