"""The rate limit: a ceiling that throttling answers lower, and even spacing of requests."""

from __future__ import annotations

from collections import deque

from trawlnet.crawlers.ids.model import later

_CUT = 0.15  # The share that a cut takes away.
_BACK = 15.0  # Seconds until the rate of the last cut is tried again.
_SETTLE = 0.5  # Seconds after a cut; answers to earlier requests are ignored.
_WINDOW, _WINDOW_REQUESTS = 1.0, 30.0  # Seconds, or the time of this many requests.
_LONE = 3  # Refusals within the window that cause a cut,
_LONE_SHARE = 0.01  # if they are also this share of the requests.
_LONGEST_WAIT = 300.0
_BURST = 0.1  # Seconds' worth of requests that may leave together,
_BURST_LEAST = 2.0  # or this many, so that a late wake-up loses none.


class Ceiling:
    """After a cut the rate returns along a cubic: fast at first, flat near the rate at which the
    server refused, then ever faster, so that a limit that is gone is soon forgotten."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._top = most
        self._cut_at = float("-inf")
        self._refusals: deque[float] = deque()
        self.held_until = float("-inf")

    def allow(self, most: float) -> None:
        self._most = most

    def value(self, now: float) -> float:
        gone = now - self._cut_at
        if gone > 100.0 * _BACK:
            return self._most
        rate = self._top * (1.0 + _CUT * (gone / _BACK - 1.0) ** 3)
        return min(self._most, max(rate, min(1.0, self._most)))

    def refused(self, now: float, *, sent: float, rate: float, wait: float | None) -> bool:
        """The server throttled a request of time `sent`, at this `rate`. Returns whether the
        ceiling was lowered."""
        if wait is not None and wait > 0.0:
            self.held_until = max(self.held_until, now + min(wait, _LONGEST_WAIT))
        window = max(_WINDOW, _WINDOW_REQUESTS / max(rate, 1.0))
        self._refusals.append(now)
        while self._refusals[0] < now - window:
            self._refusals.popleft()
        if sent < self._cut_at + _SETTLE:
            return False
        if len(self._refusals) < max(_LONE, _LONE_SHARE * rate * window):
            return False
        self._top = max(min(self.value(now), rate), min(1.0, self._most))
        self._cut_at = now
        self._refusals.clear()
        return True


class EvenPace:
    """Spreads requests evenly; the rate may change at any time."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._tokens = 1.0
        self._filled_at: float | None = None

    @property
    def rate(self) -> float:
        return self._rate

    def retune(self, now: float, rate: float) -> None:
        self._fill(now)
        self._rate = rate

    def ready(self, now: float) -> int:
        """The number of requests that may leave now."""
        self._fill(now)
        return int(self._tokens + _ROUNDING)

    def spend(self, count: int) -> None:
        self._tokens -= count

    def next_at(self, now: float) -> float:
        """When the next request may leave; waits for a few together when they are close."""
        self._fill(now)
        if self._tokens + _ROUNDING >= 1.0:
            return now
        whole = max(1.0, self._rate * _BURST / 4.0)
        return later(now, now + (whole - self._tokens) / self._rate)

    def _fill(self, now: float) -> None:
        if self._filled_at is None:
            self._filled_at = now
        gone = now - self._filled_at
        if gone > 0.0:
            most = max(_BURST_LEAST, self._rate * _BURST)
            self._tokens = min(most, self._tokens + gone * self._rate)
            self._filled_at = now


_ROUNDING = 1e-9


class SendRate:
    """The measured rate of requests over the last seconds."""

    def __init__(self) -> None:
        self._count = 0
        self._before: deque[tuple[float, int]] = deque(maxlen=3)

    def more(self, requests: int) -> None:
        self._count += requests

    def tick(self, now: float) -> None:
        """Once a second."""
        self._before.append((now, self._count))

    def rate(self, now: float, most: float) -> float:
        """At most the allowed rate, which is also the value while nothing is measured."""
        if not self._before or now <= self._before[0][0]:
            return most
        at, count = self._before[0]
        return min(most, max(1.0, (self._count - count) / (now - at)))
