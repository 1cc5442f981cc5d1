"""The retries of ids: a delay queue, in which no worker waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

# Seconds from one 404 to the next request: most early ids exist at the second one.
_AFTER_NOT_FOUND = (14.0, 45.0, 200.0)
_LAST = 0.8  # Share of the patience before the last request, which decides whether it is a hole.
ENOUGH_FOR_OLD = 2  # Requests for an id that must have been published longer than the patience.
AFTER_ERROR = (2.0, 10.0, 40.0, 160.0, 640.0)
AFTER_THROTTLE = 3.0
_SOON = 5.0
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Tries:
    """The failed requests for one id so far."""

    not_found: int = 0
    errors: int = 0

    @property
    def total(self) -> int:
        return self.not_found + self.errors


UNTRIED = Tries()


class Waiting:
    """A delay queue; it also has the tries of ids in flight."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._tries: dict[int, Tries] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def tries(self, i: int) -> Tries:
        return self._tries.get(i, UNTRIED)

    def put(self, i: int, due: float, tries: Tries) -> None:
        if tries.total:
            self._tries[i] = tries
        heappush(self._heap, (due, i))

    def hurry(self, now: float) -> None:
        """Publishing continues: request the absent ids again soon, without counting a try."""
        late = [(due, i) for due, i in self._heap if due > now + _SOON and i in self._tries]
        if not late:
            return
        for _, i in late:
            tries = self._tries[i]
            self._tries[i] = Tries(max(0, tries.not_found - 1), tries.errors)
        moved = {i for _, i in late}
        self._heap = [(due, i) for due, i in self._heap if i not in moved]
        self._heap += [(now + jittered(_SOON, i, 0), i) for i in moved]
        heapify(self._heap)

    def forget(self, i: int) -> None:
        """The id has its final result."""
        self._tries.pop(i, None)

    def take(self, now: float) -> Iterator[int]:
        """The ids that are due, the longest due first."""
        while self._heap and self._heap[0][0] <= now:
            yield heappop(self._heap)[1]

    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")


def waits(patience: float) -> tuple[float, ...]:
    """Seconds from one 404 to the next request; after the last of them the id is a hole."""
    last = _LAST * patience
    return (*(wait for wait in _AFTER_NOT_FOUND if wait < last), last)


def jittered(seconds: float, i: int, tries: int) -> float:
    """Up to a fifth more or less, fixed for this id and try: ids that failed together do not return
    together, and a run is reproducible."""
    draw = (i * 0x9E3779B97F4A7C15 + tries * 0xD1B54A32D192ED03 >> 13) & 0xFFFF
    return seconds * (1.0 + _JITTER * (draw / 32768.0 - 1.0))
