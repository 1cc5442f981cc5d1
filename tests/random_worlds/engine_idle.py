"""The law of a crawl that does not dawdle: where something may be done, it is done soon.

Only what is beyond doubt is judged: a host with nothing under way, that is neither parked nor given
up and whose gap has passed, with a key that is due, while a worker is free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.random_worlds.engine_law import RunLaw
from tests.random_worlds.engine_world import Event


@dataclass(slots=True)
class Idleness:
    law: RunLaw
    soon: float  # Seconds that store and sink may take to let the engine know.
    since: float  # The run's beginning, or when the last leases of a killed one are over.
    holds: Mapping[str, float]  # Waits that a killed run may or may not have written down.
    calm: dict[str, float] = field(default_factory=dict)  # Since when nothing is under way.
    free: float = 0.0  # Since when a worker is.
    stopped: bool = False

    def read(self, event: Event) -> None:
        """Called before the event changes anything: what was, has been so until now."""
        if not self.stopped and event.at < self.law.deadline:
            for name in self.law.lanes:
                self._judge(name, event.at)
        if event.what in ("begun", "ended", "settled", "entered", "closed"):
            self.calm[event.lane] = event.at
            if event.key and event.what in ("begun", "ended"):
                self.calm[self.law.fates.keys[event.key].task.lane] = event.at
        if self._busy() or event.what in ("begun", "settled"):
            self.free = event.at

    def _busy(self) -> bool:
        law = self.law
        if law.most_tasks is not None and law.begun >= law.most_tasks:
            self.stopped = True
        return len(law.running) + len(law.answers) >= law.workers

    def _judge(self, name: str, now: float) -> None:
        law, lane = self.law, self.law.lanes[name]
        if self._busy() or lane.blocked or lane.inside or self._under_way(name):
            return
        # Twice, since a turn may have been taken and then given back.
        gap = max((at for at, _ in lane.lefts), default=-math.inf) + 2.0 / lane.rate()
        parked = max(lane.parked_until, self.holds.get(name, 0.0))
        begin = max(parked, gap, self.since, self.free, self.calm.get(name, 0.0))
        begin = max([begin, *(until for start, until in law.still if start <= now)])
        for state in law.fates.keys.values():
            if state.task.lane == name and state.word is None:
                due = max(begin, state.due_by)
                assert now <= due + self.soon, (
                    f"{name}: nothing done for {state.task.key} from {due} to {now}"
                )

    def _under_way(self, name: str) -> bool:
        law = self.law
        return any(task.lane == name for task in law.running.values()) or any(
            law.fates.keys[key].task.lane == name for key in law.answers if key in law.fates.keys
        )
