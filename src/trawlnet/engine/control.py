"""The handle on a running crawl: pause it, resize it, drain it, and read how it is doing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.window import Window


class Ending(StrEnum):
    DONE = "done"  # The source is dry and nothing is left that can be done now.
    LIMIT = "limit"  # A limit that the user set was reached.
    DRAINED = "drained"  # Somebody asked it to stop; what was in flight was finished.


class Control:
    """Written by people and signals, read by the crawl; and the other way round for figures."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._paused = False
        self.ending: Ending | None = None
        self.changed = asyncio.Event()  # Something happened that the dispatcher should look at.
        self.started = 0  # Tasks of this run, however they ended.
        self.in_flight = 0
        self.tally: Counter[Reason] = Counter()  # Every try of this run by its reason.
        self.settled: Counter[Reason] = Counter()  # Keys of this run by their last word.
        self.window = Window()
        self.fed = 0  # Tasks that the source added in this run.
        self.source_dry = False
        self.relist = False  # The store's lanes should be read again.
        self.lanes_with_work: Callable[[], int] = lambda: 0  # Set by the crawl.
        self.longest_lane: Callable[[], float] = lambda: 0.0  # Seconds; set by the crawl.
        # Set by the crawl: a lane may have work now that its last lease did not tell of.
        self.wake: Callable[[str], None] = lambda lane: None

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

    def settled_batch(self, receipts: Sequence[Receipt], now: float) -> None:
        for reason, tries in Counter([receipt.reason for receipt in receipts]).items():
            self.tally[reason] += tries
            self.window.add(reason, now, tries)
        self.settled.update(
            [one.reason for one in receipts if one.next is None or one.reason.success]
        )
        self.changed.set()
