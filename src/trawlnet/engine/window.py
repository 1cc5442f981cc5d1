"""A rolling window over reasons: how often each occurred in the last seconds."""

from __future__ import annotations

from collections import Counter, deque

from trawlnet.engine.outcome import Reason


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
