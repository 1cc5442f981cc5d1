"""The system's clock: wall time that no clock adjustment can move within a run."""

from __future__ import annotations

import asyncio
import time
from typing import Final

_LONGEST_NAP = 86_400.0  # Event loops refuse timers that are too far away, infinity among them.
# While a machine sleeps, Linux's monotonic clock stands still and the clocks of others go on: a
# lease must be over when they say so. Where there is no such clock, the monotonic one has to do.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Unix seconds, anchored once and then counted since the machine was started, also through its
    sleep. What `sleep` waits for does not pass meanwhile."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.clock_gettime(_CLOCK)

    def now(self) -> float:
        return self._epoch + time.clock_gettime(_CLOCK)

    async def sleep(self, seconds: float) -> None:
        while seconds > _LONGEST_NAP:
            await asyncio.sleep(_LONGEST_NAP)
            seconds -= _LONGEST_NAP
        await asyncio.sleep(max(0.0, seconds))
