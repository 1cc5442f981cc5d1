"""The gate: no request leaves without a turn, and a turn waits until its lane may send."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

from trawlnet.engine.lane import Lane, LaneColumns, LaneState
from trawlnet.engine.outcome import Blame, Outcome
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import WELL, Manners, parked_until, throttled
from trawlnet.engine.turn import LaneParked, Turn

__all__ = ["Gate", "LaneColumns", "LaneParked", "LaneState"]


class Gate:
    """Per lane: a rate and, separately, a bound on requests in flight."""

    def __init__(
        self,
        clock: Clock,
        manners: Manners,
        *,
        patience: float = 1.0,
        barred_until: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._clock = clock
        self._manners = manners
        self._patience = patience  # A worker waits this long at most for a parked lane.
        self._barred_until = barred_until  # No request at all leaves before this instant.
        # Whether a request that would have to wait is refused instead. The crawl sets it.
        self.closing: Callable[[], bool] = lambda: False
        self._lanes: dict[str, Lane] = {}
        self._commons: dict[str, Lane] = {}  # Lanes that several others share.
        self._faster: set[str] = set()  # Lanes that may send sooner than the agenda knows.
        self._sweep_at = _SWEEP_FLOOR

    def turn(self, lane: str) -> Turn:
        """`async with gate.turn(lane):` around one request, until its body has been read."""
        state, closing = self._lane(lane), self.closing
        return Turn(lane, state, self._clock, self._patience, self._barred_until, closing)

    def ready_at(self, lane: str) -> float:
        """The earliest instant at which one more request may start; infinity when blocked."""
        state, now = self._lane(lane), self._clock.now()
        ready, common = state.ready_at(now), state.common
        return ready if common is None else max(ready, common.ready_at(now))

    def interval(self, lane: str) -> float:
        """Seconds between two starts; 0 where nothing limits the rate."""
        state = self._lane(lane)
        interval, common = state.interval, state.common
        longest = interval if common is None else max(interval, common.interval)
        return min(longest, _LONGEST_INTERVAL)

    def allowance(self, lane: str, now: float) -> int:
        """How many requests the rate and the parking allow to start by `now`."""
        state = self._lane(lane)
        allowance, common = state.allowance(now), state.common
        return allowance if common is None else min(allowance, common.allowance(now))

    def promise(self, lane: str, count: int) -> None:
        """`count` tasks have been started and will ask for a turn. They are counted now, or each of
        them would get the same free instant."""
        for one in self._lane(lane).with_common:
            one.promised += count

    def promised_at_most(self, lane: str, count: int) -> None:
        """A task ended: drop the promises that exceed the remaining tasks."""
        state = self._lane(lane)
        if (broken := state.promised - count) > 0:
            for one in state.with_common:
                one.promised = max(0, one.promised - broken)

    def room(self, lane: str) -> int:
        """How many requests the lane may have in flight at its present pace."""
        state = self._lane(lane)
        room, common = state.concurrency, state.common
        return room if common is None else min(room, common.concurrency)

    def observe(self, lane: str, outcome: Outcome) -> float:
        """Update the lane with one outcome. Returns when its parking ends; 0 if the outcome
        parks nothing."""
        state, now = self._lane(lane), self._clock.now()
        blames_lane = outcome.reason.blame is Blame.LANE
        if blames_lane and state.awaits_probe(now):
            return 0.0  # The request left before the lane was suspended, and is no probe.
        before = pace = state.pace
        # A request that failed while its lane was parked had left before: it shows nothing new.
        if not blames_lane or throttled(outcome) or not state.parked > now:
            pace = before.after(outcome.reason, lane_is_well=outcome.lane_is_well)
            if outcome.lane_is_down:
                pace = pace.down(state.manners)
        if pace is not before:
            interval = state.interval
            state.fare(state.manners, pace, now)
            if state.interval < interval:
                self._faster.add(lane)
        if (pace.failures, pace.throttled) > (before.failures, before.throttled):
            state.last_failure = outcome.reason
        until = parked_until(pace, outcome, state.manners, now)
        if until <= 0.0:
            return 0.0
        # The answer to a request that left before must not shorten a longer parking.
        state.parked = max(state.parked, until)
        state.why = outcome.reason
        return state.parked

    def is_answering(self, lane: str) -> bool:
        """Whether the lane answers some request between two times that it asks to wait."""
        state = self._lanes.get(lane)
        return state is None or state.pace.throttled <= 1

    def park(self, lane: str, until: float) -> None:
        """Hold a lane until an instant; infinity blocks it, 0 releases it and forgets failures."""
        state = self._lane(lane)
        state.parked = until
        if until <= 0.0:
            state.fare(state.manners, WELL, self._clock.now())

    def treat(self, lane: str, manners: Manners) -> None:
        """Set the manners of one lane (from its size, or its Crawl-delay)."""
        state = self._lane(lane)
        interval = state.interval
        state.treat(manners, self._clock.now())
        if state.interval < interval:
            self._faster.add(lane)

    def take_faster(self) -> set[str]:
        """The lanes that may be ready sooner than at the last call."""
        faster, self._faster = self._faster, set()
        return faster

    def share(self, lane: str, common: str) -> None:
        """From now on a request on this lane also takes a turn on the common lane, after its own:
        many hosts may share one address, which is treated like one host. Failures count only for
        the lane itself."""
        state, shared = self._lane(lane), self._commons.get(common)
        if shared is None:
            shared = self._commons[common] = Lane(self._manners)
        if state.common is not shared:
            state.join(shared)

    def retune(self, manners: Manners) -> None:
        """Set the manners of all lanes that have none of their own."""
        for state in (*self._lanes.values(), *self._commons.values()):
            if state.manners == self._manners:
                state.fare(manners, state.pace, self._clock.now())
        self._manners = manners

    def manners(self, lane: str) -> Manners:
        """How the lane is treated: its own manners, or those of all."""
        return self._lane(lane).manners

    def failures(self, lane: str) -> int:
        """The number of failures in a row."""
        state = self._lanes.get(lane)
        return state.pace.failures if state is not None else 0

    def parked(self, lane: str) -> float:
        """The end of the parking; 0 if the lane is not parked."""
        state = self._lanes.get(lane)
        return state.parked if state is not None else 0.0

    def blocked(self, lane: str) -> bool:
        """Whether the lane is left alone until somebody retries its tasks."""
        state = self._lanes.get(lane)
        return state is not None and state.parked == math.inf

    def in_trouble(self, lane: str) -> bool:
        """Whether its last request failed."""
        state = self._lanes.get(lane)
        return state is not None and state.pace.failures > 0

    def states(self) -> list[LaneState]:
        """A snapshot of every lane in memory, for display."""
        return [state.snapshot(name) for name, state in self._lanes.items()]

    def columns(self, most: int) -> LaneColumns:
        """The same for at most `most` lanes, at a fifth of the cost, for displays that refresh."""
        lanes = list(islice(self._lanes.values(), most))
        paces = [lane.pace for lane in lanes]
        return LaneColumns(
            list(islice(self._lanes, most)),
            [
                pace.rate(lane.manners) if pace.failures else lane.manners.rate
                for lane, pace in zip(lanes, paces, strict=True)
            ],
            [lane.in_flight for lane in lanes],
            [lane.parked for lane in lanes],
            [pace.failures for pace in paces],
            [lane.why for lane in lanes],
            [lane.last_failure for lane in lanes],
        )

    @property
    def remembered(self) -> int:
        """The number of lanes in memory."""
        return len(self._lanes)

    def _lane(self, lane: str) -> Lane:
        state = self._lanes.get(lane)
        if state is None:
            if len(self._lanes) >= self._sweep_at:
                self._sweep()
            state = self._lanes[lane] = Lane(self._manners)
        return state

    def _sweep(self) -> None:
        """Drop lanes without any state worth keeping, so that the lanes in use bound the memory,
        and not all lanes ever seen."""
        now = self._clock.now()
        idle = [name for name, state in self._lanes.items() if state.idle(self._manners, now)]
        for name in idle:
            self._lanes.pop(name).join(None)
        self._faster &= self._lanes.keys()
        commons = self._commons.items()
        left = [name for name, one in commons if not one.members and one.idle(one.manners, now)]
        for name in left:
            del self._commons[name]
        self._sweep_at = max(_SWEEP_FLOOR, 2 * len(self._lanes))


_SWEEP_FLOOR = 4096  # Lanes.
_LONGEST_INTERVAL = 3600.0  # A rate of 0 would be for ever.
