"""How many requests in flight: Little's law with a dead zone, and a check of what it promised."""

from __future__ import annotations

import math
from collections import deque

from trawlnet.crawlers.ids.controls import Controls

_HEADROOM = 1.3
_SPARE = 2
_GROW, _SHRINK = 1.15, 0.7  # Nothing moves between these shares of what is there.
_SHRINK_AFTER = 60.0  # Seconds for which fewer must do.
_MOST_AT_ONCE = 2.0
_SMOOTHING = 0.002  # Of each answer's time; several hundred answers make the mean.
_FIRST_SERVICE = 0.25
_HORIZON = 10.0  # Seconds after which a decision is compared with what came of it.
_TOLERANCE = 0.3
_STRIKES = 2
_FREEZE = 10.0


class Concurrency:
    def __init__(self, controls: Controls) -> None:
        self.size = controls.bounded(controls.workers)
        self.error: float | None = None  # Of the last prediction that was checked, as a share.
        self._controls = controls
        self._service = _FIRST_SERVICE
        self._answers = 0
        self._past: deque[tuple[float, float, int]] = deque()  # When, rate predicted, settled.
        self._strikes = 0
        self._shrink_at = float("-inf")
        self._frozen_until = float("-inf")

    def took(self, seconds: float) -> None:
        self._answers += 1
        # A plain mean at first, then one that forgets.
        self._service += max(_SMOOTHING, 1.0 / self._answers) * (seconds - self._service)

    def fit(self, now: float, rate: float) -> bool:
        """Make room for so many requests a second; whether that changed anything."""
        if now < self._frozen_until:
            return False
        wanted = math.ceil(_HEADROOM * rate * self._service) + _SPARE
        wanted = self._controls.bounded(min(wanted, math.ceil(_MOST_AT_ONCE * self.size)))
        if wanted >= _SHRINK * self.size:
            self._shrink_at = now + _SHRINK_AFTER
            if wanted <= _GROW * self.size:
                return False
        elif now < self._shrink_at:
            # A rate that swings must not drag the crew along: spare room costs nothing.
            return False
        changed, self.size = wanted != self.size, wanted
        return changed

    def predict(self, now: float, rate: float, settled: int) -> None:
        self._past.append((now, rate, settled))

    def measure(self, now: float, settled: int) -> float | None:
        """Ids a second that were settled since the decision of ten seconds ago; None if there is
        none so old."""
        measured = None
        while self._past and self._past[0][0] <= now - _HORIZON:
            at, predicted, then = self._past.popleft()
            measured = (settled - then) / (now - at)
            self.error = (measured - predicted) / predicted if predicted > 0.0 else 0.0
        return measured

    def judge(self, now: float) -> bool:
        """Two predictions in a row that were far off freeze the size for a while, and the time
        that an answer takes is learnt anew; whether that is so now."""
        if self.error is None or abs(self.error) <= _TOLERANCE:
            self._strikes = 0
            return False
        self._strikes += 1
        if self._strikes < _STRIKES:
            return False
        self._strikes = self._answers = 0
        self._frozen_until = now + _FREEZE
        self._past.clear()
        return True

    def forget(self) -> None:
        """What was predicted no longer counts: the world has changed."""
        self._past.clear()
        self.error = None
