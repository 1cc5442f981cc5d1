"""The model of the head: estimates the newest published id from recent ids and their times."""

from __future__ import annotations

from collections import deque
from statistics import median

_RECENT = 400  # Successes; the line starts at the newest quarter of them.
_SPARSE = 8  # Every eighth is stored for longer, for the slope.
_LONG = 500
_LEAST = 24  # Successes that a slope needs.
_LEAST_SPAN = 2.0
_SMOOTHING = 0.2  # The weight of each new slope, once a second.
_FIRST_DELAY = 30.0
_CHECK = 30  # First requests between two corrections of the delay,
_CHECK_EVERY = 5.0  # or, at low rates, seconds.
_EARLY_PER_SECOND = 0.5  # Early requests that are always allowed, so that few ids come sooner,
_EARLY_MOST = 0.35  # up to this share of them.
_GAIN = 4.0  # Seconds of delay for each unit of excess share.
_DELAY_DOWN, _DELAY_UP = 0.5, 2.0
_LULL = 6.0  # Expected early requests, of which none was early: the delay is far too long,
_DELAY_CUT = 0.05  # and loses this share with each correction, down to the first one.
_DELAY_PACE = 0.7  # Seconds by which the delay may change in a second.
_ABSENT_MOST = 0.25  # The largest share of ids that counts as late or absent.
_ABSENT_MEMORY = 1000.0  # First requests over which that share is averaged.
_CALM = 40  # Seconds for which delays are stored, to return to.
_DELAY_MOST = 3600.0
_EDGE = 5  # The highest ids; the median of their times is that of the newest published id.


class HeadModel:
    """Learns from ids and the times of their events, and says which ids may be requested. The delay
    from an event to its publication is learnt from first requests that were too early, so that
    their share becomes `freshness`. An id that is absent at its second request, too, was not too
    early: it is late, or a hole, and no delay would help."""

    def __init__(self, freshness: float) -> None:
        self.rate: float | None = None  # Ids a second, as they are handed out.
        self.delay = _FIRST_DELAY
        self.timed = True  # Whether ids come with times.
        self._freshness = freshness
        self._recent: deque[tuple[int, float]] = deque(maxlen=_RECENT)
        self._long: deque[tuple[int, float]] = deque(maxlen=_LONG)
        self._seen = 0
        self._base_id, self._base_at = 0.0, 0.0
        self._drawn = False  # Whether the line starts at many ids, not at a single one.
        self._firsts = self._early = 0
        self._lull = 0.0  # Early requests that were expected since the last one.
        self._absent = 0.0  # The share of ids that are absent at their second request.
        self._corrected_at = 0.0
        self._delays: deque[float] = deque(maxlen=_CALM)

    def saw(self, i: int, now: float, happened_at: float | None) -> None:
        """Without times, those of the answers are used: the slope is then that of our own crawl,
        which equals that of the ids at the head."""
        if happened_at is None:
            self.timed, self.delay, happened_at = False, 0.0, now
        self._recent.append((i, happened_at))
        self._seen += 1
        if self._seen % _SPARSE == 0:
            self._long.append((i, happened_at))

    def first_ask(self, now: float, *, early: bool) -> None:
        """The answer to the first request for an id at the head."""
        self._firsts += 1
        self._early += early
        self._absent -= self._absent / _ABSENT_MEMORY
        enough = self._firsts >= _CHECK or now >= self._corrected_at + _CHECK_EVERY
        if enough and self.timed:
            wanted = self._early_wanted()
            over = max(_GAIN * (self._early_share() - wanted), -_DELAY_DOWN)
            self._lull = 0.0 if self._early else self._lull + wanted * self._firsts
            if self._lull > _LULL and self.delay > _FIRST_DELAY:
                over = min(over, -_DELAY_CUT * self.delay)
            # When ids stop coming, the estimate must not move backwards unnoticed.
            up = min(_DELAY_UP, _DELAY_PACE * (now - self._corrected_at))
            delay = self.delay + min(over, up)
            self.delay = min(max(delay, 0.0), _DELAY_MOST)
            self._firsts, self._early, self._corrected_at = 0, 0, now

    def still_absent(self) -> None:
        """The second request for an id found nothing, either."""
        self._absent += 1.0 / _ABSENT_MEMORY

    def _early_wanted(self) -> float:
        """The share of first requests that may be too early; larger at low rates."""
        spare = _EARLY_PER_SECOND / self.rate if self.rate else 0.0
        return max(self._freshness, min(spare, _EARLY_MOST))

    def early_share(self) -> float | None:
        """The share of first requests that were too early since the last call; for ids without
        times, which have no delay to correct. None if there were too few."""
        if self._firsts < _CHECK:
            return None
        share = self._early_share()
        self._firsts = self._early = 0
        return share

    def _early_share(self) -> float:
        return self._early / self._firsts - min(self._absent, _ABSENT_MOST)

    def refresh(self) -> None:
        """Compute the line again; call this once a second."""
        self._delays.append(self.delay)
        if len(self._recent) < _LEAST:
            return
        newest = sorted(self._recent)[-max(_LEAST // 2, len(self._recent) // 4) :]
        # Medians, because some ids are assigned long after their event.
        self._base_id = median(i for i, _ in newest)
        self._base_at = median(at for _, at in newest)
        self._drawn = True
        oldest = self._oldest()
        span = self._base_at - median(at for _, at in oldest)
        if span < _LEAST_SPAN:
            return
        slope = max(0.0, (self._base_id - median(i for i, _ in oldest)) / span)
        self.rate = slope if self.rate is None else self.rate + _SMOOTHING * (slope - self.rate)

    def _oldest(self) -> list[tuple[int, float]]:
        kept = self._long if len(self._long) > _LEAST else self._recent
        return sorted(kept)[: max(_LEAST // 2, len(kept) // 8)]

    def newest(self, now: float) -> float:
        """The newest id that may be requested; infinity while nothing is known."""
        if not self.rate or not self.timed:
            return float("inf")
        return self._base_id + self.rate * (now - self.delay - self._base_at)

    def due(self, i: int) -> float:
        """When this id may be requested."""
        if not self.rate or not self.timed:
            return 0.0
        return self._base_at + self.delay + (i - self._base_id) / self.rate

    def happened(self, i: int) -> float:
        """The time of this id's event, by the line."""
        return self._base_at + (i - self._base_id) / self.rate if self.rate else self._base_at

    def out_since(self, i: int) -> float | None:
        """A time by which this id was certainly published; None if it is unknown. Many later ids
        must have been seen, because a single one may be much older than its number."""
        return self._base_at if self._drawn and i < self._base_id else None

    def unseen(self, now: float, last_at: float) -> float:
        """The number of published ids after the one whose event was at `last_at`."""
        return (self.rate or 0.0) * max(0.0, now - self.delay - last_at)

    def stopped(self) -> None:
        """A stall: restore the delay from before the last seconds, which were misleading."""
        if self._delays:
            self.delay = min(self.delay, self._delays[0])

    def published_late(self, now: float) -> None:
        """Requests are repeatedly too early: the delay is at least that of the newest id."""
        if self.timed and self._recent:
            edge = median(at for _, at in sorted(self._recent)[-_EDGE:])
            self.delay = max(self.delay, min(now - edge, _DELAY_MOST))

    def jumped(self, i: float, happened_at: float) -> None:
        """The counter has leapt or paused: continue the line from here with the same slope."""
        self._recent.clear()
        self._long.clear()
        self._base_id, self._base_at, self._drawn = i, happened_at, False
