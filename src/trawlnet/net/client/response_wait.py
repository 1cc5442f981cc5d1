"""The wait of one reader for what its connection brings, within the patience that is left."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from trawlnet.net.client.framing import is_idle_tls
from trawlnet.net.client.patience import TICK, Alarm, Patience
from trawlnet.net.trouble import TooLarge

_LOOK = 0.5  # Seconds between looks at what TLS takes in.


class ResponseWait:
    """One for all waits of a connection: at most one of them goes on at a time."""

    __slots__ = (
        "_alarm",
        "_give_up_at",
        "_loop",
        "_on_lost",
        "_patience",
        "_received",
        "_waiter",
        "enough",
        "seen",
    )

    def __init__(
        self, on_lost: Callable[[Exception], None], received: Callable[[], int] | None
    ) -> None:
        """`received` counts the bytes below TLS, where that is between the server and us."""
        self.enough = 0  # Bytes of a body that the reader waits for.
        self.seen = 0  # Bytes that came up to the reader's connection, of all responses.
        self._on_lost = on_lost
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._look)
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self, patience: Patience, enough: int = 0) -> None:
        """Until somebody wakes the reader. When the patience is lost, `on_lost` hears of it."""
        self.enough = enough
        self._patience = patience
        self._waiter = self._loop.create_future()
        begun = self._loop.time()
        self._give_up_at = due = begun + patience.left
        self._alarm.set(due if self._received is None else min(due, begun + _LOOK))
        try:
            await self._waiter
        finally:
            self._alarm.set(math.inf)
            patience.left -= self._loop.time() - begun
            self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def stop(self) -> None:
        """Nothing more will come, be it in time or late."""
        self._alarm.stop()

    def _look(self) -> None:
        if self._waiter is None or self._waiter.done():
            return
        now = self._loop.time()
        if self._received is not None and is_idle_tls(self._received(), self.seen):
            self._on_lost(TooLarge("TLS records without end that hold no answer"))
        elif now + TICK >= self._give_up_at:
            self._on_lost(self._patience.lost())
        else:
            self._alarm.set(min(self._give_up_at, now + _LOOK))
            return
        self.wake()
