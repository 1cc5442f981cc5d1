"""The dispatcher: which lanes may go now, how much of each, and whether anything is left."""

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
    """How far the store's lanes have been read, and when they are to be read once more."""

    orphans_at: float  # When leases that a dead process has left behind are over.
    after: str | None = None


async def dispatch(floor: Floor, work: Try) -> None:
    """Start what may run; sleep until a lane is due or something happens."""
    listing = _Listing(orphans_at=floor.born + floor.limits.lease)
    await _forgive_blocked_lanes(floor, listing)
    while True:
        # Cleared before looking: whatever happens from here on is not missed by the wait below.
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
    """How many tasks to lease from which lanes: those due, fairly, as far as workers are free."""
    free, gate, agenda, busy = floor.free, floor.parts.gate, floor.agenda, floor.crew.busy
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
    """A lane gets its second and further workers only while some are left for lanes that have
    work and none: those of slow servers would otherwise take all, and hold them for long."""
    workers, busy = floor.control.workers, floor.crew.busy
    most = max(1, workers // _KEPT_SHARE) if workers > 1 else 0
    if not wants or free - sum(wants.values()) >= most:
        return wants  # Enough are left, however many lanes there are.
    kept = floor.agenda.schedule.soon(now + _SOON, most, (busy, wants))
    firsts = {lane: int(lane not in busy) for lane in wants}
    further = max(0, free - sum(firsts.values()) - kept)
    granted: dict[str, int] = {}
    for lane, want in wants.items():
        more = min(want - firsts[lane], further)
        further -= more
        if first_and_more := firsts[lane] + more:
            granted[lane] = first_and_more
        else:
            floor.agenda.wait_for_room(lane)
    return granted


_KEPT_SHARE = 4  # One worker in so many is for lanes that have none,
_SOON = 2.0  # and have work within so many seconds.


async def _start(floor: Floor, wants: Mapping[str, int], work: Try) -> None:
    lease = await floor.parts.store.lease(wants, floor.parts.clock.now(), floor.limits.lease)
    for task in lease.tasks:
        floor.agenda.took(task.lane, emptied=task.lane in lease.dues)
        floor.crew.start(task)
        floor.group.create_task(work(floor, task))
    for lane in wants:
        # A lane that had less than asked for says when it has more; any other has more now.
        floor.agenda.note(lane, lease.dues.get(lane, 0.0))


async def _finished(floor: Floor, listing: _Listing) -> bool:
    control, limits = floor.control, floor.limits
    if not control.ending and _limit_reached(floor):
        control.drain(Ending.LIMIT)
    # Even while others are at work: a task that hangs would keep the rest waiting.
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
    """Whether a lane has a revisit that was due when the crawl began: it counts as open only once
    it is leased. What has come due since is left to the next run, or this one might never end."""
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
    """When to look again if nothing happens before."""
    if floor.control.ending:
        return math.inf
    if floor.free == 0:
        return floor.deadline
    # An empty schedule with open tasks: another process has them leased, and may have died.
    alone = floor.crew.held or len(floor.agenda.schedule)
    idle = math.inf if alone else floor.parts.clock.now() + floor.limits.lease / 4
    return min(floor.agenda.schedule.next(), idle, floor.deadline, listing.orphans_at)


async def _until(floor: Floor, listing: _Listing, when: float) -> None:
    seconds = None if when == math.inf else max(_TICK, when - floor.parts.clock.now())
    try:
        async with asyncio.timeout(seconds):
            await floor.control.changed.wait()
    except TimeoutError:
        if not len(floor.agenda.schedule) and not floor.crew.held:
            await _list_lanes(floor, listing)


_TICK = 1e-4  # Seconds; a shorter wait than this may round to no wait at all, for ever.


async def _forgive_blocked_lanes(floor: Floor, listing: _Listing) -> None:
    """A new run gives every blocked lane another chance, and reads what the last one left."""
    store, gate = floor.parts.store, floor.parts.gate
    for lane, until in (await store.holds(floor.parts.clock.now())).items():
        if until == math.inf:
            await store.hold(lane, 0.0)
        else:
            gate.park(lane, max(until, gate.parked(lane)))
    await _list_lanes(floor, listing)


async def _list_orphans(floor: Floor, listing: _Listing) -> None:
    """What a dead process had leased when this one began is free by now, and no lease tells of
    it; a listing that is still under way comes to it by itself."""
    listing.orphans_at = math.inf
    if listing.after is None:
        await _list_lanes(floor, listing)


async def _list_again(floor: Floor, listing: _Listing) -> None:
    """What was put back may be on lanes that this run has given up on."""
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
            # The gate may know of a longer wait that is being written down just now.
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
