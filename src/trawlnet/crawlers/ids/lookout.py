"""When nothing comes any more it is a stall or a gap: sentinels wait for one, a comb for both."""

from __future__ import annotations

from trawlnet.crawlers.ids.crossings import Crossings
from trawlnet.crawlers.ids.gapsearch import GapSearch
from trawlnet.crawlers.ids.head import Head
from trawlnet.crawlers.ids.walk import Walk

# First asks in a row without an id, and the seconds that they must span: either is enough.
_DRY_MANY, _DRY_SOON = 25, 3.0
_DRY_FEW, _DRY_LONG = 5, 15.0
_SENTINEL_EVERY = 3.0
_SENTINELS = 4
_COMB_FIRST = 15.0  # Seconds' worth of ids that must be behind a gap before a comb is worth it.
_COMB_EVERY = 15.0
_UNKNOWN_RATE = 20.0  # Ids a second, when none has been seen.
_COMB_SHARE = 0.25  # Probes, as a share of the ids that would have been asked for meanwhile.
_COMB_LEAST, _COMB_MOST = 64, 4096
_TOOTH = 0.45  # Of the ids that must be behind the gap: two teeth hit them.
_REACH = 20_000_000  # Ids; a larger gap needs an anchor.
_SLACK = 1.02  # How far off the slope of the head may be, when the start of a block is reckoned.
_NO_GAP = 8
# An anchor that knows of nothing new makes combs needless; one that never moves may be stale.
_ANCHOR_LASTS, _ANCHOR_TRUSTED = 25.0, 600.0


class Lookout:
    def __init__(self, head: Head, walk: Walk) -> None:
        self.highest = -1  # The highest id that was there, probes aside.
        self.stalled = False
        self.freed: list[int] = []  # Were held back during a stall, and may be asked for again.
        self.crossings = Crossings(walk)
        self._head = head
        self._walk = walk
        self._dry = 0
        self._good_at: float | None = None
        self._stalled_at = 0.0
        self._last_at = 0.0
        self._held: list[int] = []
        self._round: set[int] = set()
        self._round_size = self._round_hits = 0
        self._sentinel_at = self._comb_at = float("inf")
        self._search: GapSearch | None = None
        self._times: dict[int, float] = {}  # When what a probe has hit happened.

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
        self._last_at = self._head.happened(self.highest)
        self._sentinel_at = self._comb_at = now

    def exists(self, now: float, i: int) -> None:
        self.highest = max(self.highest, i)
        if i in self._round:
            self._round_hits += 1
            self._round_answered(now, i)

    def missing(self, now: float, i: int) -> bool:
        """Whether the id was a sentinel: then it is kept here."""
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
        """During a stall, ids behind the last one that was there wait for its end."""
        if not self.stalled or i <= self.highest:
            return False
        self._held.append(i)
        return True

    def _round_answered(self, now: float, i: int) -> None:
        self._round.discard(i)
        if not self._round and 2 * self._round_hits >= self._round_size > 0:
            self._resume(now)

    def _resume(self, now: float) -> None:
        self.stalled, self._dry, self._good_at = False, 0, now
        self._search = None
        self.freed.extend(self._held)
        self._held = []
        self._sentinel_at = self._comb_at = float("inf")

    # --- Looking ---

    def sentinels(self, now: float, most: int) -> list[int]:
        """A few of the ids that wait, the first ones above all: they come out first."""
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
        return chosen

    def probes(self, now: float, most: int) -> list[int]:
        if self.stalled and now >= self._comb_at:
            self._comb(now)
        taken = self._search.take(now, most) if self._search else []
        return taken + self.crossings.take(now, most - len(taken))

    def _comb(self, now: float) -> None:
        if self._head.rate:
            rate, beyond = self._head.rate, self._head.unseen(now, self._last_at)
        else:
            # Started at the edge of a gap, with nothing to tell how far it may be.
            rate = _UNKNOWN_RATE
            beyond = rate * (_COMB_FIRST + now - self._stalled_at)
        if beyond < _COMB_FIRST * rate:
            self._comb_at = now + _COMB_FIRST - beyond / rate
            return
        spacing = max(_COMB_EVERY, 0.5 * (now - self._stalled_at))
        self._comb_at = now + spacing
        if self._search is None:
            self._search = GapSearch(self._walk.cursor)
        if self._search.searching:
            return
        step = max(1, int(_TOOTH * beyond))
        count = min(_COMB_MOST, max(_COMB_LEAST, _COMB_SHARE * rate * spacing), _REACH / step + 1)
        self._search.comb(self._walk.cursor, step, int(count))

    def anchor_wanted(self) -> bool:
        return self.stalled and (self._search is None or not self._search.hit)

    def anchored(self, now: float, newest: int) -> None:
        """Somebody knows an id that exists."""
        if not self.anchor_wanted():
            return
        if newest > self._walk.cursor + _NO_GAP:
            if self._search is None:
                self._search = GapSearch(self._walk.cursor)
            self._search.anchor(newest)
        elif now < self._stalled_at + _ANCHOR_TRUSTED:
            self._comb_at = max(self._comb_at, now + _ANCHOR_LASTS)

    def next_at(self, now: float) -> float:
        at = float("inf")
        if self.stalled:
            sentinel_at = float("inf") if self._round else self._sentinel_at
            at = min(sentinel_at, self._comb_at)
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
            # If it is the end of a stall, those that wait are there as well.
            self._sentinel_at = min(self._sentinel_at, now)
        if search.first is not None:
            self._crossed(now, search)

    def _crossed(self, now: float, search: GapSearch) -> None:
        first = search.first
        assert first is not None
        at = self._times.get(first)
        start = first
        if at is not None and self._head.rate:
            # Ids right at the start of the block may not have been out yet when it was searched.
            start -= int(_SLACK * self._head.rate * max(0.0, at - self._last_at)) + _NO_GAP
        self._resume(now)
        self._times.clear()
        if start <= self._walk.cursor + _NO_GAP:
            return
        search.resume(now, start, None if at is None else at + self._head.delay)
        self.crossings.confirm(search)
        self._walk.jump(start)
        self._head.jumped(first, now - self._head.delay if at is None else at)
