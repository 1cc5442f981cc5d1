"""The classic gap checker: every five minutes it checks, adds many workers, searches, skips."""

from __future__ import annotations

from collections.abc import Iterable

from trawlnet.crawlers.ids.adaptive.combs import Comb
from trawlnet.crawlers.ids.adaptive.crossings import Crossings
from trawlnet.crawlers.ids.adaptive.gap_search import GapSearch, probe_says
from trawlnet.crawlers.ids.adaptive.walk import Walk
from trawlnet.crawlers.ids.classic.counters import SecondCounters
from trawlnet.crawlers.ids.classic.law import PeriodReading
from trawlnet.crawlers.ids.model import Answer, Purpose

EVERY = 300.0
WINDOW = 240.0
SUSPECT_FRACTION, SUSPECT_COUNT = 0.8, 50
SUPER_WORKERS, SUPER_IDS = 500, 10_000
GAP_FRACTION = 0.99
_TOOTH = 0.45
_PUBLISHED_AFTER = 45.0  # Seconds of ids that may not be published yet behind a gap.
_COMB_MOST = 4096


class GapChecker:
    """Bisection finds a block only if it happens to hit it. Here a comb, dense enough for the ids
    that must exist by now, finds any block within reach; if there is none it was a stall, and the
    crawl stays where it is."""

    def __init__(self, walk: Walk, unsurveyed: Iterable[tuple[int, int, int]] = ()) -> None:
        self.crossings = Crossings(walk, unsurveyed)
        self.left = 0  # Ids that the added workers have yet to take.
        self.crew = 0
        self._walk = walk
        self._check_at = float("inf")
        self._search: GapSearch | None = None
        self._rate = 0.0
        self._found_at = 0.0

    def begin(self, now: float) -> None:
        self._check_at = now + EVERY
        self._found_at = now

    def knows(self, reading: PeriodReading) -> None:
        """Learn the rate of ids."""
        if reading.fraction_404 < 0.5 and reading.pgcr_rate > 0.0:
            self._rate = reading.pgcr_rate

    def check(self, now: float, counters: SecondCounters, *, idle: bool) -> str:
        """Called every second; returns what happened as text, or empty."""
        if self._search is not None:
            return self._searched(now)
        if self.crew:
            return self._supercharged(now, counters) if self.left <= 0 and idle else ""
        if now < self._check_at:
            return ""
        self._check_at = now + EVERY
        reading = counters.reading(now, WINDOW)
        if reading.fraction_404 <= SUSPECT_FRACTION or reading.count_404 <= SUSPECT_COUNT:
            return ""
        self.crew, self.left = SUPER_WORKERS, SUPER_IDS
        return f"gap suspected: {SUPER_WORKERS} more workers for {SUPER_IDS} ids"

    def _supercharged(self, now: float, counters: SecondCounters) -> str:
        self.crew = 0
        self._check_at = now + EVERY
        if counters.reading(now, WINDOW).fraction_404 <= GAP_FRACTION:
            return "no gap: new ids appear again"
        beyond = max(1.0, self._rate) * max(1.0, now - self._found_at - _PUBLISHED_AFTER)
        step = max(1, int(_TOOTH * beyond))
        count = _COMB_MOST
        self._search = GapSearch(self._walk.cursor)
        self._search.comb(self._walk.cursor, Comb(0, step, count))
        return f"gap: searching with {count} probes, {step} ids apart"

    def _searched(self, now: float) -> str:
        search = self._search
        assert search is not None
        if search.searching:
            return ""
        self._search = None
        self._check_at = now + EVERY
        if search.first is None:
            return "runaway: no id found within range; the position is unchanged"
        self._walk.jump(search.first)
        self.crossings.confirm(search)
        return f"gap crossed: [{search.start}, {search.first})"

    def probes(self, now: float, most: int) -> list[int]:
        search = self._search
        taken = search.take(now, most) if search is not None else []
        for i in [i for i in taken if self._walk.is_ahead(i)]:
            assert search is not None
            taken.remove(i)
            search.answered(now, i, True)
        return taken + self.crossings.take(now, most - len(taken))

    def next_at(self, now: float) -> float:
        at = self._search.next_at(now) if self._search is not None else float("inf")
        return min(at, self.crossings.next_at(now))

    def heard(self, now: float, i: int, answer: Answer) -> None:
        """Receives every answer."""
        verdict = answer.verdict
        if not answer.ask.purpose.looks:
            if verdict.exists and answer.ask.purpose is Purpose.FIRST:
                self._found_at = now
            return
        exists = probe_says(verdict)
        if self._search is not None and i in self._search:
            self._search.answered(now, i, exists)
        else:
            self.crossings.answered(now, i, exists)
