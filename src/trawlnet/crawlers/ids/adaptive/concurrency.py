"""The number of requests in flight: Little's law with a dead zone, and checked predictions."""

from __future__ import annotations

import math
from collections import deque

from trawlnet.crawlers.ids.controls import Controls

_HEADROOM = 1.3
_SPARE = 2
_GROW, _SHRINK = 1.15, 0.7  # No change while the need is between these shares of the size.
_SHRINK_AFTER = 60.0  # Seconds for which fewer must be enough before the size shrinks.
_MOST_AT_ONCE = 2.0
_SMOOTHING = 0.002  # Weight of each answer's time; the mean covers several hundred answers.
_FIRST_SERVICE = 0.25
_HORIZON = 10.0  # Seconds after which a decision is compared with its result.
_TOLERANCE = 0.3
_STRIKES = 2
_FREEZE = 10.0


class Concurrency:
    def __init__(self, controls: Controls) -> None:
        self.size = controls.bounded(controls.workers)
        self.error: float | None = None  # The relative error of the last checked prediction.
        self._controls = controls
        self._service = _FIRST_SERVICE
        self._answers = 0
        self._past: deque[tuple[float, float, int]] = deque()  # When, rate predicted, settled.
        self._strikes = 0
        self._shrink_at = float("-inf")
        self._frozen_until = float("-inf")

    def took(self, seconds: float) -> None:
        self._answers += 1
        # A plain mean at first, then an exponential one.
        self._service += max(_SMOOTHING, 1.0 / self._answers) * (seconds - self._service)

    def fit(self, now: float, rate: float) -> bool:
        """Adapt the size to this rate of requests; returns whether it changed."""
        if now < self._frozen_until:
            return False
        wanted = math.ceil(_HEADROOM * rate * self._service) + _SPARE
        wanted = self._controls.bounded(min(wanted, math.ceil(_MOST_AT_ONCE * self.size)))
        if wanted >= _SHRINK * self.size:
            self._shrink_at = now + _SHRINK_AFTER
            if wanted <= _GROW * self.size:
                return False
        elif now < self._shrink_at:
            # An oscillating rate must not change the size: spare workers cost nothing.
            return False
        changed, self.size = wanted != self.size, wanted
        return changed

    def predict(self, now: float, rate: float, settled: int) -> None:
        self._past.append((now, rate, settled))

    def measure(self, now: float, settled: int) -> float | None:
        """The rate of settled ids since the decision of ten seconds ago; None if there is none."""
        measured = None
        while self._past and self._past[0][0] <= now - _HORIZON:
            at, predicted, then = self._past.popleft()
            measured = (settled - then) / (now - at)
            self.error = (measured - predicted) / predicted if predicted > 0.0 else 0.0
        return measured

    def judge(self, now: float) -> bool:
        """After two wrong predictions in a row the size is frozen for a while, and the answer time
        is measured anew; returns whether it is frozen now."""
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
        """Drop the predictions, after a change of the API."""
        self._past.clear()
        self.error = None
