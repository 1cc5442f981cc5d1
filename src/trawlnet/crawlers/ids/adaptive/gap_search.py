"""The search for the far side of a gap: a comb finds a block of ids, bisection finds its start."""

from __future__ import annotations

from collections import deque

from trawlnet.crawlers.ids.adaptive.combs import Comb
from trawlnet.crawlers.ids.model import AnswerVerdict

_DENSE = 4096  # Below this distance two neighbours are probed, in case one is a hole.
_BELOW = 8  # Ids before the block that are requested again later, when late ids have appeared.
_VERIFY_AFTER = 60.0
_OUT_LONG = 120.0  # Seconds; a block that is older has no late ids.
_TRIES = 20  # Attempts at a probe without a conclusive answer; then it counts as absent.


class GapSearch:
    """Chooses the next probes and interprets their answers, without sending anything.

    `start` is the first id that may belong to the gap. Once `first` is known, crawling continues
    there. A minute later the ids right before it are requested again: if one of them exists, the
    block began earlier, `first` moves down and `extra` is the range that was passed over. If none
    exists, `gap` is final.
    """

    def __init__(self, start: int, known: int | None = None) -> None:
        self.start = start
        self.first: int | None = None
        self.extra: tuple[int, int] | None = None
        self.gap: tuple[int, int] | None = None
        self.probes = 0
        self._queue: deque[int] = deque()
        self._flying: set[int] = set()
        self._absent: set[int] = set()  # Teeth of this comb without an id.
        self._hit: int | None = None
        self._above: int | None = None  # The assumed start of the block, if it was too high.
        self._low, self._high = start - 1, start
        self._halving = False
        self._untold: dict[int, int] = {}
        self._verify_at = float("inf")
        if known is not None:
            self.anchor(known)

    def comb(self, start: int, comb: Comb) -> None:
        """Probe ids behind the start. A block of two steps cannot be missed."""
        self.start = start
        self._absent.clear()
        begin = start + comb.skip
        self._queue = deque(begin + comb.step * k for k in range(1, comb.count + 1))

    def anchor(self, known: int) -> None:
        """Use an id that is known to exist, instead of a comb."""
        if not self._halving and self.first is None and known > self.start:
            self._queue.clear()
            self._low, self._high, self._halving = self.start - 1, known, True
            self._halve()

    @property
    def searching(self) -> bool:
        return self.first is None and bool(self._halving or self._queue or self._flying)

    @property
    def hit(self) -> bool:
        """Whether a block was found, or is about to be."""
        return self._halving or self._hit is not None

    def take(self, now: float, most: int) -> list[int]:
        """Ids to request now."""
        if now >= self._verify_at and not self._flying:
            self._verify_at = float("inf")
            self._low = first = self._checked_first()
            self._queue.extend(range(max(self.start, first - _BELOW), first))
            if not self._queue:
                self._confirm()
        taken = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        self._flying.update(taken)
        self.probes += len(taken)
        return taken

    def next_at(self, now: float) -> float:
        return now if self._queue else self._verify_at

    def __contains__(self, i: int) -> bool:
        return i in self._flying

    def answered(self, now: float, i: int, exists: bool | None) -> None:
        """The result of a probe; None if it was inconclusive and must be sent again."""
        self._flying.discard(i)
        if exists is None:
            self._untold[i] = self._untold.get(i, 0) + 1
            if self._untold[i] < _TRIES:
                self._queue.appendleft(i)
                return
            exists = False
        if self.gap is not None:
            return
        if self.first is not None:
            self._verified(now, i, exists)
        elif self._halving:
            self._halved(now, i, exists)
        else:
            self._combed(now, i, exists)

    def _combed(self, now: float, i: int, exists: bool) -> None:
        if not exists:
            self._absent.add(i)
        elif self._hit is None or i < self._hit:
            self._hit = i
            self._queue = deque(k for k in self._queue if k < i)
        if self._hit is not None and not self._queue and not self._flying:
            before = [k for k in self._absent if k < self._hit]
            self._low, self._high = max(before, default=self.start - 1), self._hit
            self._halving = True
            self._next(now)

    def _halve(self) -> None:
        middle = (self._low + self._high) // 2
        self._queue.append(middle)
        if self._high - self._low < _DENSE and middle + 1 < self._high:
            self._queue.append(middle + 1)

    def _halved(self, now: float, i: int, exists: bool) -> None:
        if exists:
            self._high = min(self._high, i)
            self._queue.clear()
        elif not self._flying and not self._queue and i < self._high:
            self._low = max(self._low, i)
        if not self._flying and not self._queue:
            self._next(now)

    def _next(self, now: float) -> None:
        if self._high - self._low <= 1:
            self.resume(now, self._high)
        else:
            self._halve()

    def resume(self, now: float, first: int, out_at: float | None = None) -> None:
        """Crawling continues at `first`; the ids right before it are requested again later, or as
        soon as the block, published at `out_at`, is old enough."""
        self.first = max(first, self.start)
        self._halving = False
        long = now + _VERIFY_AFTER if out_at is None else out_at + _OUT_LONG
        self._verify_at = max(now, long)
        if self._above is not None:
            self.extra, self._above = (self.first, self._above), None

    def _checked_first(self) -> int:
        assert self.first is not None, "only a block that was found is checked"
        return self.first

    def _verified(self, now: float, i: int, exists: bool) -> None:
        if exists:
            self._low = min(self._low, i)
        if self._flying or self._queue:
            return
        first = self._checked_first()
        if self._low >= first:
            self._confirm()
            return
        # Late ids had misled the search: bisect once more, below the lowest of them.
        self.first, self._above = None, first
        self._low, self._high, self._halving = self.start - 1, self._low, True
        self._next(now)

    def _confirm(self) -> None:
        self.gap = (self.start, self._checked_first())


def probe_says(verdict: AnswerVerdict) -> bool | None:
    """Whether the id exists; None if that is uncertain. The crawl jumps to an existing id, so only
    a complete answer counts."""
    return True if verdict.exists else False if verdict is AnswerVerdict.NOT_FOUND else None
