"""The system's clock: wall time that no clock adjustment can move within a run."""

from __future__ import annotations

import asyncio
import time

_LONGEST_NAP = 86_400.0  # Event loops refuse timers that are too far away, infinity among them.


class SystemClock:
    """Unix seconds, anchored once and then counted by the monotonic clock."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        return self._epoch + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        while seconds > _LONGEST_NAP:
            await asyncio.sleep(_LONGEST_NAP)
            seconds -= _LONGEST_NAP
        await asyncio.sleep(max(0.0, seconds))
