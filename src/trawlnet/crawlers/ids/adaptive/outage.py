"""Outages: while the API is off or only fails, single requests (canaries) check for its return."""

from __future__ import annotations

_CANARY_FIRST, _CANARY_MOST = 2.0, 10.0  # Seconds between canaries; doubles each time.
_FAILURES = 20  # Failures in a row
_FAILING = 5.0  # over this many seconds are an outage, with any status.


class Outage:
    def __init__(self) -> None:
        self.on = False
        self.canary_at = float("inf")
        self._wait = _CANARY_FIRST
        self._began = float("-inf")
        self._failures = 0
        self._failing_since = 0.0

    def disabled(self, now: float) -> None:
        """Of many such answers at once, the first counts, and then those of canaries."""
        if not self.on:
            self.on, self._began, self._wait = True, now, _CANARY_FIRST
        elif self.canary_at < float("inf"):
            return
        self.canary_at = now + self._wait
        self._wait = min(2.0 * self._wait, _CANARY_MOST)

    def failed(self, now: float) -> None:
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        if self.on or (self._failures >= _FAILURES and now - self._failing_since >= _FAILING):
            self.disabled(now)

    def answered(self, sent: float) -> None:
        """A request of that time got a real answer."""
        self._failures = 0
        # Answers to requests from before the outage do not count.
        if self.on and sent > self._began:
            self.on, self.canary_at = False, float("inf")

    def take_canary(self, now: float) -> bool:
        """Whether a canary may be sent now; the next waits for this one's answer."""
        if now < self.canary_at:
            return False
        self.canary_at = float("inf")
        return True
