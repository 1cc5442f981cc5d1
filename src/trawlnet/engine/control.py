"""The handle on a running crawl: pause it, resize it, wake a lane, drain it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum

from trawlnet.engine.figures import Figures


class Ending(StrEnum):
    """Why a crawl came to its end."""

    DONE = "done"  # The source is exhausted, and no open task can be done now.
    LIMIT = "limit"  # A limit that the user set was reached.
    DRAINED = "drained"  # A command stopped the crawl; tasks in flight were finished.


class Control:
    """Written by people, signals and companions, read by the crawl."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.crew: int | None = None  # Workers as people count them, where others run beside them.
        self._paused = False
        self._woken: set[str] = set()
        self.ending: Ending | None = None
        self.changed = asyncio.Event()  # Something happened that the dispatcher should look at.
        self.relist = False  # The store's lanes should be read again.
        self.figures = Figures()  # The counters of this run; the crawl writes them.

    @property
    def workers(self) -> int:
        """How many tasks run at the same time; may be set while the crawl runs."""
        return self._workers

    @workers.setter
    def workers(self, size: int) -> None:
        if size < 0:
            raise ValueError("the number of workers cannot be negative")
        self._workers = size
        self.changed.set()

    @property
    def shown_workers(self) -> int:
        """The same as people count them."""
        return self._workers if self.crew is None else self.crew

    @property
    def paused(self) -> bool:
        """Whether no task is started until `resume`."""
        return self._paused

    def pause(self) -> None:
        """Start no more tasks; those in flight are finished."""
        self._paused = True
        self.changed.set()

    def resume(self) -> None:
        """Go on after a pause."""
        self._paused = False
        self.changed.set()

    def look_again(self) -> None:
        """Another process has reopened tasks in the store."""
        self.relist = True
        self.changed.set()

    def drain(self, ending: Ending = Ending.DRAINED) -> None:
        """Start no more tasks; finish and settle those in flight. The first ending counts."""
        self.ending = self.ending or ending
        self.changed.set()

    def wake(self, lane: str) -> None:
        """A lane may have work that its last lease did not report."""
        self._woken.add(lane)
        self.changed.set()

    def woken(self) -> Collection[str]:
        """Lanes to look at; each is returned once."""
        woken, self._woken = self._woken, set()
        return woken
