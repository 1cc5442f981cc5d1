"""Gaps that have been crossed and are still to be confirmed, and those inside old ranges."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.crawlers.ids.gapsearch import GapSearch
from trawlnet.crawlers.ids.walk import Walk


@dataclass(slots=True)
class _Crossing:
    search: GapSearch
    end: int | None = None  # Of the old range that it lies in.


class Crossings:
    """What turns out to lie before a block that was jumped to is given back to the walk."""

    def __init__(self, walk: Walk) -> None:
        self.gaps: list[tuple[int, int]] = []  # Known for good; whoever reads them clears them.
        self._walk = walk
        self._open: list[_Crossing] = []

    def confirm(self, search: GapSearch) -> None:
        """The walk has gone on behind this gap."""
        self._open.append(_Crossing(search))

    def cross(self, start: int, end: int) -> None:
        """The rest of an old range looks like a gap; its end is known to exist."""
        self._open.append(_Crossing(GapSearch(start, end), end))

    def take(self, now: float, most: int) -> list[int]:
        taken: list[int] = []
        for crossing in list(self._open):
            taken += crossing.search.take(now, most - len(taken))
            self._advance(crossing)
        return taken

    def next_at(self, now: float) -> float:
        return min((one.search.next_at(now) for one in self._open), default=float("inf"))

    def answered(self, now: float, i: int, exists: bool | None) -> None:
        for crossing in self._open:
            if i in crossing.search:
                crossing.search.answered(now, i, exists)
                self._advance(crossing)
                return

    def _advance(self, crossing: _Crossing) -> None:
        search = crossing.search
        if search.first is not None and crossing.end is not None:
            self._walk.add(search.first, crossing.end)
            crossing.end = None
        if search.extra is not None:
            self._walk.add(*search.extra)
            search.extra = None
        if search.gap is not None:
            if search.gap[0] < search.gap[1]:
                self.gaps.append(search.gap)
            self._open.remove(crossing)
