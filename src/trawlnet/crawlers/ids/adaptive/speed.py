"""The wanted rate of requests, before the ceiling limits it."""

from __future__ import annotations

from dataclasses import replace

from trawlnet.crawlers.ids.adaptive.head import HeadModel
from trawlnet.crawlers.ids.controls import Controls

_AHEAD = 1.15  # Multiple of the rate of ids,
_SPARE = 5.0  # plus this many requests a second,
_CATCH_UP = 15.0  # plus the backlog, spread over this many seconds.
_BLIND = 4.0  # Requests a second for each worker, while nothing is known of the ids.
_STALLED, _STALLED_LEAST = 2.0, 10.0  # Multiple of the rate of ids, and a minimum, in a stall.
_EMBARGO = 600.0  # Seconds over which opened ids are spread.
_GROWTH = 1.15  # Growth a second, for ids without times, while too few requests are early.
_AT_HEAD = 2.0  # Seconds' worth of ids; a smaller distance counts as being at the head.


class Speed:
    def __init__(self, controls: Controls, head: HeadModel) -> None:
        self._controls = controls
        self._head = head
        self._untimed = 2.0 * controls.workers

    def allow(self, max_rps: float) -> None:
        self._controls = replace(self._controls, max_rps=max_rps)
        self._untimed = min(self._untimed, max_rps)

    def wanted(self, now: float, cursor: int, *, stalled: bool, embargoed: int) -> float:
        """Call this once a second."""
        come = self._head.rate
        if come is None:
            return _BLIND * self._controls.workers
        if stalled:
            return _STALLED * come + _STALLED_LEAST
        if not self._head.timed:
            return self._by_early_asks(come)
        left = max(0.0, self._head.newest(now) - cursor)
        return _AHEAD * come + left / _CATCH_UP + _SPARE + embargoed / _EMBARGO

    def at_head(self, now: float, cursor: int) -> bool:
        near = _AT_HEAD * (self._head.rate or 0.0) + 1.0
        return self._head.newest(now) - cursor < near

    def _by_early_asks(self, come: float) -> float:
        """Without times, only early requests show how close the head is."""
        share = self._head.early_share()
        if share is not None:
            over = share - self._controls.freshness
            change = _GROWTH if over <= 0.0 else max(0.5, 1.0 - 2.0 * over)
            rate = max(change * self._untimed, _SPARE, 0.5 * come)
            self._untimed = min(rate, self._controls.max_rps)
        return self._untimed
