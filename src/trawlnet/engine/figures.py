"""How one run of a crawl is doing: written by the crawl, read by whoever shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.window import Window


class Lanes(Protocol):
    def with_work(self) -> int:
        """Lanes that have something to do, now or later; blocked ones have not."""

    def longest(self) -> float:
        """Seconds that the lane with the most work needs at least: the crawl does, too."""


class NoLanes:
    """Before the crawl begins nobody has work."""

    def with_work(self) -> int:
        return 0

    def longest(self) -> float:
        return 0.0


class Figures:
    def __init__(self) -> None:
        self.started = 0  # Tasks, however they ended.
        self.in_flight = 0
        self.tally: Counter[Reason] = Counter()  # Every try by its reason.
        self.settled: Counter[Reason] = Counter()  # Keys by their last word.
        self.window = Window()
        self.fed = 0  # Tasks that the source added.
        self.source_dry = False
        self.lanes: Lanes = NoLanes()

    def add_receipts(self, receipts: Sequence[Receipt[Any]], now: float) -> None:
        for reason, tries in Counter([receipt.reason for receipt in receipts]).items():
            self.tally[reason] += tries
            self.window.add(reason, now, tries)
        words = [one for one in receipts if not one.is_step]
        self.settled.update([one.reason for one in words if one.next is None or one.reason.success])
