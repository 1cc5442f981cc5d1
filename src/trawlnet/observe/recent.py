"""Figures of the last minutes, in memory that is bounded by time and not by events."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

_SAMPLES = 64  # Values kept of one second: those of a second are much alike.


class RecentValues:
    """Quantiles over the last `span` seconds."""

    def __init__(self, span: float) -> None:
        self._span = span
        self._slots: deque[tuple[int, list[float]]] = deque()

    def add(self, now: float, value: float) -> None:
        second = int(now)
        if not self._slots or self._slots[-1][0] < second:
            self._slots.append((second, []))
            self._forget(now)
        if len(kept := self._slots[-1][1]) < _SAMPLES:
            kept.append(value)

    def quantile(self, now: float, share: float) -> float | None:
        """None when nothing was seen."""
        self._forget(now)
        values = sorted(value for _, kept in self._slots for value in kept)
        return values[min(len(values) - 1, int(share * len(values)))] if values else None

    def _forget(self, now: float) -> None:
        while self._slots and self._slots[0][0] < now - self._span:
            self._slots.popleft()


class RecentCounts:
    """How often each of a few things has happened in the last `span` seconds."""

    def __init__(self, span: float) -> None:
        self._span = span
        self._slots: deque[tuple[int, Counter[Hashable]]] = deque()

    def add(self, now: float, what: Hashable) -> None:
        second = int(now)
        if not self._slots or self._slots[-1][0] < second:
            self._slots.append((second, Counter()))
            while self._slots[0][0] < now - self._span:
                self._slots.popleft()
        self._slots[-1][1][what] += 1

    def counts(self, now: float, span: float | None = None) -> Counter[Hashable]:
        since = now - min(span or self._span, self._span)
        total: Counter[Hashable] = Counter()
        for second, counts in self._slots:
            if second >= since:
                total.update(counts)
        return total
