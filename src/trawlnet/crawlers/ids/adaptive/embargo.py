"""Ids that exist and are withheld: a few are asked for now and then, all of them once they open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_EVERY = 60.0  # Seconds between two samples.
_SAMPLE = 5  # Ids, from all over: those of one event open together, others may stay closed.
# One that was let go pays for asking for so many more. If more than a quarter of them are open it
# is a flood, which feeds itself however few requests there are; otherwise it dies down.
_PAID = 4
_PAID_MOST = 400  # Asks in vain, at most, when the flood is over.
_APART = 0.618  # Of all that are held, between two ids of a sample: never twice the same places.
_SHARE = 0.05  # Of all requests: so many are theirs even if there is no room to spare ...
_SAVED_MOST = 50.0  # ... and no more of them than this at once.


class Embargo:
    def __init__(self, held: Iterable[int] = ()) -> None:
        self._held: deque[int] = deque(held)
        self._flying: set[int] = set()
        self._paid = 0  # Asks that ids which were let go have paid for.
        self._sample_at = float("-inf")
        self._sample_left = 0
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

    def let_go(self, i: int) -> None:
        """One that was withheld has been fetched."""
        self._flying.discard(i)
        self._paid = min(self._paid + _PAID, _PAID_MOST)

    def again(self, i: int) -> None:
        """The ask told nothing about it: keep it for the next sample."""
        self._flying.discard(i)
        self._held.append(i)

    def sent(self, requests: int) -> None:
        """So many requests were sent, for whatever: a share of that is saved up for these."""
        if self._held:
            self._saved = min(_SAVED_MOST, self._saved + _SHARE * requests)

    def take_share(self, now: float, most: int) -> list[int]:
        """Ids to ask for now whatever else there is to do."""
        taken = self.take(now, min(most, int(self._saved)))
        self._saved -= len(taken)
        return taken

    def take(self, now: float, most: int) -> list[int]:
        """Ids to ask for again now."""
        if now >= self._sample_at and self._held:
            self._sample_at = now + _EVERY
            self._sample_left = _SAMPLE
        taken: list[int] = []
        while self._held and len(taken) < most and (self._paid or self._sample_left):
            taken.append(self._next())
        self._flying.update(taken)
        return taken

    def _next(self) -> int:
        """Next to the last one while those are open, else somewhere else."""
        if self._paid:
            self._paid -= 1
        else:
            self._sample_left -= 1
            self._held.rotate(-int(_APART * len(self._held)))
        return self._held.popleft()

    def next_at(self, now: float) -> float:
        if not self._held:
            return float("inf")
        return now if self._paid or self._sample_left else self._sample_at
