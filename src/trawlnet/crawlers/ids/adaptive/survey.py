"""The survey of a gap: ever finer combs search its ids for islands.

A few probes cross a gap, so they may miss a block between two gaps. The ids between the probes are
surveyed here, the coarsest stretch first, and become a gap only when the finest comb has found
nothing. Teeth are multiples of a power of two, so that a stretch can be cut anywhere, and each comb
requests only the ids that the one before it left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from trawlnet.crawlers.ids.model import LedgerEntry, LedgerMark, later

ISLAND = 128  # Ids; an island of so many is found in a gap of any size, ...
_PARTS = 512  # ... and one of this part of it in a smaller gap.
_FIRST_BITS = 7  # The first comb has 64 teeth or more: two to the power of one less.
_CHUNK = 256  # Teeth after which the results are written to the ledger.
_MARGIN = 8  # Ids on each side of an existing one that may have been late.
_TRIES = 20  # Attempts at a tooth without a conclusive answer; then the crawl requests it.
_SHARE, _SHARE_MOST, _LEAST = 0.1, 0.25, 1.0  # Of all requests; of few; requests a second.


@dataclass(frozen=True, slots=True)
class Stretch:
    start: int
    end: int
    step: int = 0  # Every multiple of it was requested and is absent; 0: none was requested.
    finest: int = 1  # At this step it is a gap.


@dataclass(frozen=True, slots=True)
class Island:
    """Somewhere within [start, end) there are ids."""

    start: int
    end: int
    hits: tuple[int, ...]  # Existing ids.
    unread: tuple[int, ...]  # Ids without a conclusive answer.


class Ground:
    """`entries` and `islands` are for the caller to read and clear."""

    def __init__(self, stretches: Iterable[tuple[int, int, int]] = ()) -> None:
        self.entries: list[LedgerEntry] = []
        self.islands: list[Island] = []
        self._stretches: list[Stretch] = []  # In order of their ids.
        self._work: Stretch | None = None  # The chunk being combed, with its step afterwards.
        self._queue: deque[int] = deque()
        self._flying: set[int] = set()
        self._hits: list[int] = []
        self._unread: list[int] = []
        self._untold: dict[int, int] = {}
        self._rate = 0.0
        self._tokens, self._filled_at = 0.0, 0.0
        for start, end, step in stretches:
            self._keep(Stretch(start, end, step, finest_step(end - start)))

    def __bool__(self) -> bool:
        return bool(self._stretches or self._work)

    def __contains__(self, i: int) -> bool:
        return i in self._flying

    @property
    def lowest(self) -> int | None:
        """The first id that is not surveyed."""
        known = [one.start for one in (*self._stretches, self._work) if one is not None]
        return min(known, default=None)

    def add(self, start: int, end: int) -> None:
        """Add a range of which only the two sides are known."""
        if start < end:
            self._keep(Stretch(start, end, 0, finest_step(end - start)))
            self.entries.append(LedgerEntry(start, end, LedgerMark.UNSURVEYED))

    def retune(self, now: float, rate: float) -> None:
        """Set the number of teeth a second."""
        self._fill(now)
        self._rate = rate

    def take(self, now: float, most: int) -> list[int]:
        self._fill(now)
        taken: list[int] = []
        while len(taken) < most and self._tokens >= 1.0 and self._ready():
            taken.append(self._queue.popleft())
            self._tokens -= 1.0
        self._flying.update(taken)
        return taken

    def next_at(self, now: float) -> float:
        if self._rate <= 0.0 or not self._ready():
            return float("inf")
        self._fill(now)
        if self._tokens >= 1.0:
            return now
        return later(now, now + (1.0 - self._tokens) / self._rate)

    def answered(self, i: int, exists: bool | None) -> None:
        self._flying.discard(i)
        if exists is None:
            self._untold[i] = self._untold.get(i, 0) + 1
            if self._untold[i] < _TRIES:
                self._queue.appendleft(i)
                return
            self._unread.append(i)
        elif exists:
            self._hits.append(i)
        if not self._queue and not self._flying:
            self._finish()

    def _fill(self, now: float) -> None:
        gone = max(0.0, now - self._filled_at)
        self._tokens = min(max(1.0, self._rate), self._tokens + gone * self._rate)
        self._filled_at = now

    def _ready(self) -> bool:
        while self._work is None and self._stretches:
            self._begin()
        return bool(self._queue)

    def _begin(self) -> None:
        """Begin the next chunk of the stretch with the coarsest comb."""
        nth, whole = max(enumerate(self._stretches), key=lambda one: one[1].step or float("inf"))
        size = whole.end - whole.start
        step = whole.step // 2 or max(whole.finest, 1 << max(0, size.bit_length() - _FIRST_BITS))
        every = whole.step or step
        end = whole.end
        if whole.step:
            end = min(end, (whole.start // every + _CHUNK) * every)
        self._stretches[nth : nth + 1] = [replace(whole, start=end)] if end < whole.end else []
        self._work = replace(whole, end=end, step=step)
        offset = step if whole.step else 0
        first = whole.start + (offset - whole.start) % every
        self._queue = deque(range(first, end, every))
        if not self._queue:
            self._finish()

    def _finish(self) -> None:
        work = self._work
        assert work is not None, "answers belong to a chunk"
        self._work = None
        reached = work.start
        for island in _islands(work, sorted(self._hits), sorted(self._unread)):
            self._settle(replace(work, start=reached, end=island.start))
            self.islands.append(island)
            self.entries.append(LedgerEntry(island.start, island.end, LedgerMark.PENDING, "island"))
            reached = island.end
        self._settle(replace(work, start=reached))
        self._hits.clear()
        self._unread.clear()
        self._untold.clear()

    def _settle(self, stretch: Stretch) -> None:
        if stretch.start >= stretch.end:
            return
        mark = LedgerMark.UNSURVEYED
        if stretch.step <= stretch.finest:
            mark = LedgerMark.GAP
        else:
            self._keep(stretch)
        self.entries.append(
            LedgerEntry(stretch.start, stretch.end, mark, asked_every(stretch.step))
        )

    def _keep(self, stretch: Stretch) -> None:
        """Merge neighbours with the same step, so that there are never many."""
        self._stretches.append(stretch)
        self._stretches.sort(key=lambda one: one.start)
        joined: list[Stretch] = []
        for one in self._stretches:
            before = joined[-1] if joined else None
            if before and (before.end, before.step, before.finest) == (
                one.start,
                one.step,
                one.finest,
            ):
                joined[-1] = replace(before, end=one.end)
            else:
                joined.append(one)
        self._stretches = joined


def _islands(work: Stretch, hits: list[int], unread: list[int]) -> list[Island]:
    """Islands around existing ids, up to the nearest absent teeth."""
    reach = max(work.step - 1, _MARGIN)
    found: list[Island] = []
    for i in sorted(hits + unread):
        start, end = max(work.start, i - reach), min(work.end, i + reach + 1)
        if found and start <= found[-1].end:
            start = found.pop().start
        inside = tuple(k for k in hits if start <= k < end)
        found.append(Island(start, end, inside, tuple(k for k in unread if start <= k < end)))
    return found


def finest_step(size: int) -> int:
    """Two teeth of the last comb hit the smallest island that must be found."""
    smallest = min(ISLAND, max(2, size // _PARTS))
    return 1 << ((smallest // 2).bit_length() - 1)


def survey_rate(pace: float) -> float:
    """Teeth a second, at this rate of requests."""
    return min(max(_SHARE * pace, _LEAST), _SHARE_MOST * pace)


def asked_every(step: int) -> str:
    """How densely a stretch was requested, as the reason of a mark."""
    if step == 0:
        return ""
    return "every id was asked for" if step == 1 else f"1 of {step} ids was asked for"


def step_asked(reason: str) -> int:
    """What `asked_every` has written; 0 for anything else."""
    words = reason.split()
    if reason == asked_every(1):
        return 1
    return int(words[2]) if words[:2] == ["1", "of"] and words[2].isdigit() else 0
