"""How many visits may ask a directory at once, and when the others are to come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trawlnet.engine.ports import Clock

_FIRST_GUESS = 1.0  # Seconds that a lookup takes, until some have been measured.
_SHARE = 0.2  # Of the estimate that each measured lookup makes up.


class LookupSlots:
    """Each lookup holds a worker, and the turn at its PDS is over. Whoever finds all slots taken
    is given an instant of their own to come back at: at one and the same for all, most would be
    turned away again, time after time, each after another request to their PDS."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._taken = 0
        self._seconds = _FIRST_GUESS
        self._promised = 0.0  # All slots are promised until then.

    def wait(self) -> float:
        """Seconds after which a slot is likely to be free for this one; 0 if one is now."""
        if self._taken < self._most:
            return 0.0
        now = self._clock.now()
        self._promised = max(self._promised, now) + self._seconds / self._most
        return self._promised - now

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        begun = self._clock.now()
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
            took = self._clock.now() - begun
            self._seconds += _SHARE * (took - self._seconds)
