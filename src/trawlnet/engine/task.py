"""A task: one key to visit, on one lane, not before its due time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """One key to visit."""

    # Scans make two copies for each request; `replace` takes three times as long as a constructor.
    key: str  # Identity: adding the same key twice is adding it once.
    lane: str  # The unit of politeness: a host, a PDS, an API.
    payload: Any = None  # What the handler needs, as plain JSON-like data; the engine never looks.
    due: float = 0.0  # Not before this instant (Unix seconds).
    score: float = 0.0  # Within a lane, lower goes first; equal scores go in order of arrival.
    attempt: int = 0  # The number of failed attempts; the retry policy bounds it.
    waits: int = 0  # How often a server has postponed the task; bounded separately.

    def retried(self, due: float) -> Task:
        """As it waits after a failed attempt, which counts."""
        return replace(self, due=due, attempt=self.attempt + 1)

    def postponed(self, due: float) -> Task:
        """As it waits because a server asked for it: no attempt is used."""
        return replace(self, due=due, waits=self.waits + 1)

    def revisited(self, due: float) -> Task:
        """As it waits for its next visit, with attempts and waits counted anew."""
        return Task(self.key, self.lane, self.payload, due, self.score)

    def carrying(self, payload: Any) -> Task:
        """The same task with another payload."""
        return Task(self.key, self.lane, payload, self.due, self.score, self.attempt, self.waits)
