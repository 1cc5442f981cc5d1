"""The handle on a running crawl: pause it, resize it, wake a lane, drain it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum

from trawlnet.engine.figures import Figures


class Ending(StrEnum):
    DONE = "done"  # The source is dry and nothing is left that can be done now.
    LIMIT = "limit"  # A limit that the user set was reached.
    DRAINED = "drained"  # Somebody asked it to stop; what was in flight was finished.


class Control:
    """Written by people, signals and companions, read by the crawl."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._paused = False
        self._woken: set[str] = set()
        self.ending: Ending | None = None
        self.changed = asyncio.Event()  # Something happened that the dispatcher should look at.
        self.relist = False  # The store's lanes should be read again.
        self.figures = Figures()  # What the crawl writes, of this run.

    @property
    def workers(self) -> int:
        return self._workers

    @workers.setter
    def workers(self, size: int) -> None:
        if size < 0:
            raise ValueError("a crew cannot be smaller than nobody")
        self._workers = size
        self.changed.set()

    @property
    def paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        self._paused = True
        self.changed.set()

    def resume(self) -> None:
        self._paused = False
        self.changed.set()

    def look_again(self) -> None:
        """Somebody else has put work back into the store."""
        self.relist = True
        self.changed.set()

    def drain(self, ending: Ending = Ending.DRAINED) -> None:
        """Start nothing more; finish and settle what is in flight. The first word stands."""
        self.ending = self.ending or ending
        self.changed.set()

    def wake(self, lane: str) -> None:
        """A lane may have work now that its last lease did not tell of."""
        self._woken.add(lane)
        self.changed.set()

    def woken(self) -> Collection[str]:
        """Lanes to look at; each is told once."""
        woken, self._woken = self._woken, set()
        return woken
