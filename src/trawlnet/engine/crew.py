"""The crew: tracks each task from its lease until it is settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from trawlnet.engine.figures import Figures
from trawlnet.engine.gate import Gate
from trawlnet.engine.task import Task


class Crew:
    """A task is started, leaves its lane, frees its worker, and is settled, in this order. Its
    lease is renewed until the last of these, even while it waits for the sink."""

    def __init__(self, gate: Gate, figures: Figures) -> None:
        self._gate = gate
        self._figures = figures
        self._held: dict[str, Task] = {}  # Leased tasks that are not settled yet, by key.
        self._busy: Counter[str] = Counter()
        self.held: Collection[str] = self._held.keys()
        self.busy: Mapping[str, int] = self._busy  # Tasks being worked on, by lane.

    def start(self, task: Task) -> None:
        self._held[task.key] = task
        self._busy[task.lane] += 1
        self._figures.started += 1
        self._figures.in_flight += 1
        self._gate.promise(task.lane, 1)

    def leave_lane(self, lane: str) -> None:
        left = self._busy[lane] = self._busy[lane] - 1
        self._gate.promised_at_most(lane, left)
        if not left:
            del self._busy[lane]

    def free_worker(self) -> None:
        self._figures.in_flight -= 1

    def settle(self, task: Task) -> None:
        """Stop renewing the task's lease. A slow store may have leased the key again meanwhile;
        that newer lease is still renewed."""
        if self._held.get(task.key) is task:
            del self._held[task.key]
