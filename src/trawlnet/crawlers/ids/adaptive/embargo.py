"""Ids that the API withholds: requests a few from time to time, and all once they open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_EVERY = 60.0  # Seconds between two samples.
_SAMPLE = 5  # Ids from the whole range: those of one event open together, others may stay closed.
# Each id that opened pays for some further requests. If more than a quarter of those succeed, the
# requests multiply until all open ids are fetched; otherwise they die down.
_PAID = 4
_PAID_MOST = 400  # Requests in vain, at most, after the last open id.
_APART = 0.618  # Distance between two ids of a sample, as a share of all: never the same places.
_SHARE = 0.05  # Share of all requests that is reserved for withheld ids,
_SAVED_MOST = 50.0  # up to this many at once.


class Embargo:
    def __init__(self, held: Iterable[int] = ()) -> None:
        self._order: deque[int] = deque(held)  # In which they are requested; some may be gone.
        self._held: set[int] = set(self._order)
        self._flying: set[int] = set()
        self._paid = 0  # Requests that opened ids have paid for.
        self._sample_at = float("-inf")
        self._sample_left = 0
        self._saved = 0.0

    def __len__(self) -> int:
        return len(self._held) + len(self._flying)

    def __contains__(self, i: int) -> bool:
        """Whether this id was requested again, and not answered yet."""
        return i in self._flying

    def knows(self, i: int) -> bool:
        return i in self._held or i in self._flying

    def hold(self, now: float, i: int) -> None:
        if not self._held and not self._flying:
            self._sample_at = now + _EVERY
        self.again(i)

    def let_go(self, i: int) -> None:
        """A withheld id has been fetched, perhaps by another request."""
        self._flying.discard(i)
        self._held.discard(i)
        self._paid = min(self._paid + _PAID, _PAID_MOST)

    def again(self, i: int) -> None:
        """Keep the id for the next sample: the answer was inconclusive, or no other. Several
        requests for it may have been answered."""
        self._flying.discard(i)
        if i not in self._held:
            self._held.add(i)
            self._order.append(i)

    def sent(self, requests: int) -> None:
        """This many requests were sent, for any purpose: save up a share of them."""
        if self._held:
            self._saved = min(_SAVED_MOST, self._saved + _SHARE * requests)

    def take_share(self, now: float, most: int) -> list[int]:
        """Ids to request now, from the reserved share."""
        taken = self.take(now, min(most, int(self._saved)))
        self._saved -= len(taken)
        return taken

    def take(self, now: float, most: int) -> list[int]:
        """Ids to request again now."""
        if now >= self._sample_at and self._held:
            self._sample_at = now + _EVERY
            self._sample_left = _SAMPLE
        taken: list[int] = []
        while self._held and len(taken) < most and (self._paid or self._sample_left):
            taken.append(i := self._next())
            self._held.remove(i)
        self._flying.update(taken)
        return taken

    def _next(self) -> int:
        """The id after the last one while those open, else one elsewhere."""
        if self._paid:
            self._paid -= 1
        else:
            self._sample_left -= 1
            self._order.rotate(-int(_APART * len(self._order)))
        while (i := self._order.popleft()) not in self._held:
            pass  # It was fetched by another request.
        return i

    def next_at(self, now: float) -> float:
        if not self._held:
            return float("inf")
        return now if self._paid or self._sample_left else self._sample_at
