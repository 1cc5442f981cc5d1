"""Crossed gaps: confirms their edges, and surveys the ids between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trawlnet.crawlers.ids.adaptive.gap_search import GapSearch
from trawlnet.crawlers.ids.adaptive.survey import Ground, Island
from trawlnet.crawlers.ids.adaptive.walk import Walk
from trawlnet.crawlers.ids.model import Ask, LedgerEntry, Purpose

_WALKED = 64  # Ids; in a shorter range all ids are requested, instead of a search for the edge.


@dataclass(slots=True)
class _Crossing:
    search: GapSearch
    end: int | None = None  # Of the old range that it lies in.


class Crossings:
    """Ids that exist before the block behind a gap return to the walk."""

    def __init__(self, walk: Walk, unsurveyed: Iterable[tuple[int, int, int]] = ()) -> None:
        self.ground = Ground(unsurveyed)
        self._walk = walk
        self._open: list[_Crossing] = []

    def confirm(self, search: GapSearch) -> None:
        """The walk has continued behind this gap."""
        self._open.append(_Crossing(search))

    def cross(self, start: int, end: int) -> None:
        """The rest of an old range looks like a gap; its end is known to exist."""
        self._open.append(_Crossing(GapSearch(start, end), end))

    def entries(self) -> list[LedgerEntry]:
        """The new entries for the ledger."""
        made = list(self.ground.entries)
        self.ground.entries.clear()
        return made

    def ask(self, i: int) -> Ask:
        """The request for a taken id."""
        return Ask(i, Purpose.SURVEY if i in self.ground else Purpose.PROBE)

    def take(self, now: float, most: int) -> list[int]:
        taken: list[int] = []
        for crossing in list(self._open):
            taken += crossing.search.take(now, most - len(taken))
            self._advance(crossing)
        taken += self.ground.take(now, most - len(taken))
        for i in [i for i in taken if self._walk.is_ahead(i)]:
            taken.remove(i)
            self.answered(now, i, True)
        return taken

    def next_at(self, now: float) -> float:
        at = min((one.search.next_at(now) for one in self._open), default=float("inf"))
        return min(at, self.ground.next_at(now))

    def answered(self, now: float, i: int, exists: bool | None) -> None:
        if i in self.ground:
            self.ground.answered(i, exists)
            for island in self.ground.islands:
                self._land(island)
            self.ground.islands.clear()
            return
        for crossing in self._open:
            if i in crossing.search:
                crossing.search.answered(now, i, exists)
                self._advance(crossing)
                return

    def _land(self, island: Island) -> None:
        """Search for the edges of an island, from ids in it that exist."""
        low = island.start
        for i in sorted((*island.hits, *island.unread)):
            if i - low > _WALKED:
                self.cross(low, i)
            else:
                self._walk.add(low, i)
            if i in island.unread:
                self._walk.add(i, i + 1)
            low = i + 1
        self._walk.add(low, island.end)

    def _advance(self, crossing: _Crossing) -> None:
        search = crossing.search
        if search.first is not None and crossing.end is not None:
            self._walk.add(search.first, crossing.end)
            crossing.end = None
        if search.extra is not None:
            self._walk.add(*search.extra)
            search.extra = None
        if search.gap is not None:
            self.ground.add(*search.gap)
            self._open.remove(crossing)
