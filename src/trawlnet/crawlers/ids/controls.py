"""The user's settings of a crawl of ids, for both laws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Controls:
    workers: int = 25  # At the start.
    min_workers: int = 5
    max_workers: int = 250
    max_rps: float = 25.0  # Requests a second, for all purposes.
    freshness: float = 0.02  # The share of first requests that may be too early (adaptive only).
    patience: float = 1500.0  # Seconds until an absent id is a hole (adaptive only).
    step: int = 1  # From one id to the next; above 1 the ids between are left out.

    def __post_init__(self) -> None:
        if not 1 <= self.min_workers <= self.max_workers:
            raise ValueError("min_workers must be at least 1 and at most max_workers")
        if self.max_rps <= 0.0 or not 0.0 < self.freshness < 1.0 or self.step < 1:
            raise ValueError("max_rps above 0, freshness between 0 and 1, step at least 1")
        if self.patience <= 0.0:
            raise ValueError("patience above 0")

    def bounded(self, workers: float) -> int:
        return int(min(max(workers, self.min_workers), self.max_workers))
