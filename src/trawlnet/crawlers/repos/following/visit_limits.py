"""When a visit that a stream asks for may be: a server that breaks chains without end has no more
of its repositories fetched than so many an hour."""

from __future__ import annotations

from collections import OrderedDict

MOST_HOSTS = 10_000
_BURST = 0.1  # Of an hour's visits may be at once.


class VisitLimits:
    """One bucket per server, which refills evenly."""

    def __init__(self, per_hour: float) -> None:
        self._pause = 3600.0 / per_hour
        self._burst = max(1.0, _BURST * per_hour)
        self._used_until: OrderedDict[str, float] = OrderedDict()

    def next_slot(self, pds: str, at: float) -> float:
        """The instant for one more visit, at `at` or later."""
        earliest = at - self._burst * self._pause
        used_until = max(self._used_until.pop(pds, 0.0), earliest) + self._pause
        self._used_until[pds] = used_until
        while len(self._used_until) > MOST_HOSTS:
            self._used_until.popitem(last=False)
        return max(at, used_until)
