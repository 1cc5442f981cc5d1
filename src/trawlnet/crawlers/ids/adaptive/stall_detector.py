"""Detects stalls and gaps when no new ids appear: sentinels wait for the end of a stall, combs
find the far side of a gap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from trawlnet.crawlers.ids.adaptive.combs import Combs
from trawlnet.crawlers.ids.adaptive.crossings import Crossings
from trawlnet.crawlers.ids.adaptive.gap_search import GapSearch
from trawlnet.crawlers.ids.adaptive.head import HeadModel
from trawlnet.crawlers.ids.adaptive.walk import Walk

# First requests in a row without an id, and the seconds that they must span: either is enough.
_DRY_MANY, _DRY_SOON = 25, 3.0
_DRY_FEW, _DRY_LONG = 5, 15.0
_SENTINEL_EVERY = 3.0
_SENTINELS = 4
_UNKNOWN_RATE = 20.0  # Assumed ids a second while none has been seen,
_UNKNOWN_OUT = 15.0  # and seconds' worth of them that are published when the search begins.
_SLACK = 1.02  # Possible error of the slope when the start of a block is computed.
_NO_GAP = 8
_SHIFTED = 10.0  # Seconds by which ids may be off the line before it is computed from them.
_SOON = 60.0  # Seconds; a stall so soon after another means that publishing is slower.
# An anchor without a new id makes combs unnecessary; one that never changes may be stale.
_ANCHOR_LASTS, _ANCHOR_TRUSTED = 25.0, 600.0


class StallDetector:
    def __init__(
        self, head: HeadModel, walk: Walk, unsurveyed: Iterable[tuple[int, int, int]] = ()
    ) -> None:
        self.highest = -1  # The highest existing id, without probes.
        self.stalled = False
        self.pace = 0.0  # The allowed requests a second.
        self.freed: list[int] = []  # Ids held back during a stall, to be requested again.
        self.over = False  # A stall has ended; the reader resets this.
        self.crossings = Crossings(walk, unsurveyed)
        self._head = head
        self._walk = walk
        self._dry = 0
        self._good_at: float | None = None
        self._stalled_at = 0.0
        self._last_at = 0.0
        self._held: list[int] = []
        self._round: set[int] = set()
        self._round_size = self._round_hits = 0
        self._round_times: dict[int, float] = {}
        self._came_at = float("-inf")  # When sentinels last ended a stall.
        self._sentinel_at = float("inf")
        self._combs = Combs(0.0)
        self._search: GapSearch | None = None
        self._times: dict[int, float] = {}  # Id that a probe found -> the time of its event.

    # --- Noticing ---

    def first_ask(self, now: float, *, missing: bool) -> None:
        if not missing:
            self._dry, self._good_at = 0, now
            return
        self._dry += 1
        if self._good_at is None:
            self._good_at = now
        silent = now - self._good_at
        many = self._dry >= _DRY_MANY and silent >= _DRY_SOON
        if not self.stalled and (many or (self._dry >= _DRY_FEW and silent >= _DRY_LONG)):
            self._stall(now)

    def _stall(self, now: float) -> None:
        self.stalled = True
        self._stalled_at = now
        self._head.stopped()
        if now < self._came_at + _SOON:
            self._head.published_late(now)
        self._last_at = self._head.happened(self.highest)
        self._sentinel_at = now
        self._combs = Combs(now)

    def exists(self, now: float, i: int, happened_at: float | None) -> None:
        self.highest = max(self.highest, i)
        if i in self._round:
            self._round_hits += 1
            if happened_at is not None:
                self._round_times[i] = happened_at
            self._round_answered(now, i)

    def missing(self, now: float, i: int) -> bool:
        """Whether the id is a sentinel, which waits here."""
        if i not in self._round:
            return False
        self._held.append(i)
        self._round_answered(now, i)
        return True

    def untold(self, now: float, i: int) -> None:
        if i in self._round:
            self._round_size -= 1
            self._round_answered(now, i)

    def holds(self, i: int) -> bool:
        """During a stall, ids after the last existing one wait for its end."""
        if not self.stalled or i <= self.highest:
            return False
        self._held.append(i)
        return True

    def _round_answered(self, now: float, i: int) -> None:
        self._round.discard(i)
        if not self._round and 2 * self._round_hits >= self._round_size > 0:
            self._came_at, self.over = now, True
            self._follow(self._round_times)
            self._resume(now)

    def _resume(self, now: float) -> None:
        self.stalled, self._dry, self._good_at = False, 0, now
        self._search = None
        self.freed.extend(self._held)
        self._held = []
        self._sentinel_at = float("inf")

    def _follow(self, times: Mapping[int, float]) -> None:
        """After a pause of the counter, the line must not count the ids that never came."""
        off = [at - self._head.happened(i) for i, at in times.items()]
        if off and abs(median(off)) > _SHIFTED:
            self._head.jumped(median(times), median(times.values()))

    # --- Looking ---

    def sentinels(self, now: float, most: int) -> list[int]:
        """A few of the waiting ids, mostly the first ones, which are published first."""
        if now < self._sentinel_at or self._round or most <= 0:
            return []
        self._sentinel_at = now + _SENTINEL_EVERY
        self._held.sort()
        places = {0, 1, len(self._held) // 3, 2 * len(self._held) // 3}
        chosen = [self._held[k] for k in places if k < len(self._held)][: min(most, _SENTINELS)]
        if chosen:
            self._held = [i for i in self._held if i not in set(chosen)]
        else:
            chosen = [self._walk.next_new()]
        self._round = set(chosen)
        self._round_size, self._round_hits = len(chosen), 0
        self._round_times = {}
        return chosen

    def probes(self, now: float, most: int) -> list[int]:
        if self.stalled and now >= self._comb_at():
            self._comb(now)
        taken: list[int] = []
        while self._search:
            chosen = self._search.take(now, most - len(taken))
            known = [i for i in chosen if self._walk.is_ahead(i)]
            taken += [i for i in chosen if i not in known]
            for i in known:
                self.probed(now, i, True, None)
            if not known:
                break  # Otherwise the search continues with what needed no request.
        return taken + self.crossings.take(now, most - len(taken))

    def _comb_at(self) -> float:
        searching = self._search is not None and self._search.searching
        return float("inf") if searching else self._combs.next_at()

    def _comb(self, now: float) -> None:
        rate = self._head.rate or _UNKNOWN_RATE
        if self._head.rate:
            out = self._head.unseen(now, self._last_at) / rate
        else:
            # Started at the edge of a gap, without a hint of its size.
            out = _UNKNOWN_OUT + now - self._stalled_at
        self._combs.pace = self.pace
        comb = self._combs.take(now, rate, out)
        if comb is not None:
            if self._search is None:
                self._search = GapSearch(self._walk.cursor)
            self._search.comb(self._walk.cursor, comb)

    def anchor_wanted(self) -> bool:
        return self.stalled and (self._search is None or not self._search.hit)

    def anchored(self, now: float, newest: int) -> None:
        """An id is known to exist."""
        if not self.anchor_wanted():
            return
        if newest > self._walk.cursor + _NO_GAP:
            if self._search is None:
                self._search = GapSearch(self._walk.cursor)
            self._search.anchor(newest)
        elif now < self._stalled_at + _ANCHOR_TRUSTED:
            self._combs.put_off(now + _ANCHOR_LASTS)

    def next_at(self, now: float) -> float:
        at = float("inf")
        if self.stalled:
            sentinel_at = float("inf") if self._round else self._sentinel_at
            at = min(sentinel_at, self._comb_at())
        if self._search:
            at = min(at, self._search.next_at(now))
        return min(at, self.crossings.next_at(now))

    # --- What the probes found ---

    def probed(self, now: float, i: int, exists: bool | None, happened_at: float | None) -> None:
        if exists and happened_at is not None:
            self._times[i] = happened_at
        search = self._search
        if search is None or i not in search:
            self.crossings.answered(now, i, exists)
            return
        search.answered(now, i, exists)
        if exists:
            # At the end of a stall, the waiting ids exist as well.
            self._sentinel_at = min(self._sentinel_at, now)
        if search.first is not None:
            self._crossed(now, search)

    def _crossed(self, now: float, search: GapSearch) -> None:
        first = search.first
        assert first is not None
        at = self._began_at(first)
        self._resume(now)
        self._times.clear()
        if first <= self._walk.cursor + _NO_GAP:
            return
        # The first ids of the block may not have been published during the search; if the counter
        # did not pause, there are as many of them as the time allows.
        start = first
        if at is not None and self._head.rate:
            start -= int(_SLACK * self._head.rate * max(0.0, at - self._last_at)) + _NO_GAP
        start = max(start, self._walk.cursor)
        if start > self._walk.cursor:
            search.resume(now, start, None if at is None else at + self._head.delay)
            self.crossings.confirm(search)
        self._walk.jump(first)
        self._walk.add(start, first)
        self._head.jumped(first, now - self._head.delay if at is None else at)

    def _began_at(self, first: int) -> float | None:
        """The time at which the block began, from all ids that probes found in it: the event of a
        single one may be much older than its id."""
        rate = self._head.rate
        if first not in self._times or not rate:
            return self._times.get(first)
        return median(at - (i - first) / rate for i, at in self._times.items() if i >= first)
