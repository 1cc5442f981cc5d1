"""Ids that exist and are withheld: a few are asked for now and then, all of them once they open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_EVERY = 60.0  # Seconds between two samples.
_SAMPLE = 5  # Ids; enough of them to open the flood at the first sample after it opened.
_FLOOD = 3  # More ids than this, let go within the window, mean that all are.
_FLOOD_WINDOW = 180.0
_SHARE = 0.05  # Of all requests: so many are theirs even if there is no room to spare ...
_SAVED_MOST = 50.0  # ... and no more of them than this at once.


class Embargo:
    def __init__(self, held: Iterable[int] = ()) -> None:
        self._held: deque[int] = deque(held)
        self._flying: set[int] = set()
        self._opened: deque[float] = deque()
        self._sample_at = float("-inf")
        self._saved = 0.0

    def __len__(self) -> int:
        return len(self._held) + len(self._flying)

    def __contains__(self, i: int) -> bool:
        """Whether this one was asked for again, and not answered yet."""
        return i in self._flying

    def hold(self, now: float, i: int) -> None:
        if not self._held and not self._flying:
            self._sample_at = now + _EVERY
        self._flying.discard(i)
        self._held.append(i)

    def let_go(self, now: float, i: int) -> None:
        """One that was withheld has been fetched."""
        self._flying.discard(i)
        self._opened.append(now)

    def again(self, i: int) -> None:
        """The ask told nothing about it: keep it for the next sample."""
        self._flying.discard(i)
        self._held.append(i)

    def drop(self, i: int) -> None:
        self._flying.discard(i)

    def sent(self, requests: int) -> None:
        """So many requests were sent, for whatever: a share of that is saved up for these."""
        if self._held:
            self._saved = min(_SAVED_MOST, self._saved + _SHARE * requests)

    def take_share(self, now: float, most: int) -> list[int]:
        """Ids to ask for now whatever else there is to do."""
        taken = self.take(now, min(most, int(self._saved)))
        self._saved -= len(taken)
        return taken

    def flood(self, now: float) -> bool:
        while self._opened and self._opened[0] < now - _FLOOD_WINDOW:
            self._opened.popleft()
        return len(self._opened) > _FLOOD

    def take(self, now: float, most: int) -> list[int]:
        """Ids to ask for again now."""
        if not self._held or most <= 0:
            return []
        if not self.flood(now):
            if now < self._sample_at:
                return []
            self._sample_at = now + _EVERY
            most = min(most, _SAMPLE)
        taken = [self._held.popleft() for _ in range(min(most, len(self._held)))]
        self._flying.update(taken)
        return taken

    def next_at(self, now: float) -> float:
        if not self._held:
            return float("inf")
        return now if self.flood(now) else self._sample_at
