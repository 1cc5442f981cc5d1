"""The counters of one run: the crawl writes them, displays and metrics read them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Protocol

from trawlnet.engine.outcome import Reason, Receipt


class Window:
    """Counts per slot of time; memory is bounded by the number of slots, not of events."""

    def __init__(self, span: float = 60.0, slots: int = 60) -> None:
        self._span = span
        self._width = span / slots
        self._slots: deque[tuple[int, Counter[Reason]]] = deque()
        self._total: Counter[Reason] = Counter()
        self._born: float | None = None

    def add(self, reason: Reason, now: float, count: int = 1) -> None:
        if self._born is None:
            self._born = now
        slot = int(now // self._width)
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, Counter()))
            self._expire(now)
        self._slots[-1][1][reason] += count
        self._total[reason] += count

    def counts(self, now: float) -> Counter[Reason]:
        self._expire(now)
        return +self._total

    def rate(self, now: float) -> float:
        """Events per second over the window, or over its life so far if that is shorter."""
        if self._born is None:
            return 0.0
        lived = min(self._span, max(now - self._born, self._width))
        return sum(self.counts(now).values()) / lived

    def fraction(self, reason: Reason, now: float) -> float:
        counts = self.counts(now)
        total = sum(counts.values())
        return counts[reason] / total if total else 0.0

    def _expire(self, now: float) -> None:
        oldest = int((now - self._span) // self._width)
        while self._slots and self._slots[0][0] <= oldest:
            self._total -= self._slots.popleft()[1]


class Lanes(Protocol):
    def with_work(self) -> int:
        """The number of lanes with tasks that are due now or later, without blocked lanes."""

    def longest(self) -> float:
        """The least time, in seconds, that the lane with the most work needs, and so the crawl."""


class NoLanes:
    """Stands in before the crawl begins: no lane has work."""

    def with_work(self) -> int:
        return 0

    def longest(self) -> float:
        return 0.0


class Figures:
    def __init__(self) -> None:
        self.started = 0  # Tasks, however they ended.
        self.in_flight = 0
        self.tally: Counter[Reason] = Counter()  # Every attempt by its reason, steps too.
        self.steps = 0  # Attempts after which their tasks continue.
        self.settled: Counter[Reason] = Counter()  # Keys by their final reason.
        self.window = Window()
        self.fed = 0  # Tasks that the source added.
        self.source_dry = False
        self.lanes: Lanes = NoLanes()

    def add_settled(self, reason: Reason) -> None:
        """A key was settled without a task of the crawl."""
        self.settled[reason] += 1

    def add_receipts(self, receipts: Sequence[Receipt[Any]], now: float) -> None:
        for reason, tries in Counter([receipt.reason for receipt in receipts]).items():
            self.tally[reason] += tries
            self.window.add(reason, now, tries)
        words = [one for one in receipts if not one.is_step]
        self.steps += len(receipts) - len(words)
        if ends := [one.reason for one in words if one.next is None or one.reason.success]:
            self.settled.update(ends)
