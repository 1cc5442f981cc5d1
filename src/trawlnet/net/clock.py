"""The system's clock: wall time that no clock adjustment can move within a run."""

from __future__ import annotations

import asyncio
import time
from typing import Final

_LONGEST_NAP = 86_400.0  # Seconds; event loops refuse timers that are too far away.
# While a machine is suspended, Linux's monotonic clock stops and other machines' clocks continue: a
# lease must end by their time. Systems without CLOCK_BOOTTIME use the monotonic clock.
_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Unix seconds, read once and then counted by the boot clock, which continues while the
    machine is suspended. A `sleep` does not advance during that time."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.clock_gettime(_CLOCK)

    def now(self) -> float:
        """Unix seconds."""
        return self._epoch + time.clock_gettime(_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """At least so long."""
        while seconds > _LONGEST_NAP:
            await asyncio.sleep(_LONGEST_NAP)
            seconds -= _LONGEST_NAP
        await asyncio.sleep(max(0.0, seconds))
