"""The queue of events on a server: while that is away, the follower waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from trawlnet.engine.control import Control, Ending
from trawlnet.queues.queue import Message, Queue
from trawlnet.storage.errors import SinkUnreachable, StoppedWaiting

log = logging.getLogger(__name__)

_SENT_LATER = "events that it has not confirmed are in the spool; the next run sends them again"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # Seconds between two tries, doubling.


class EventQueue:
    """Who publishes waits until the server has confirmed, and reads no further meanwhile: so what
    is kept in memory does not grow, and the cursor stays before what is not confirmed."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.trouble = ""  # Why it does not confirm, in words.
        # Before a crawl begins, and at its own limits, an absent server is an error.
        self._control: Control | None = None

    def attend(self, control: Control) -> None:
        """Wait for the server from now on, until the crawl is told to end."""
        self._control = control

    async def publish(self, messages: Sequence[Message]) -> None:
        """Confirmed on return. Raises SinkUnreachable, of which StoppedWaiting is one kind; what
        was confirmed by then comes again."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._queue.publish(messages)
            except SinkUnreachable as error:
                control = self._control
                if control is not None and control.ending is Ending.DRAINED:
                    raise StoppedWaiting(error.message, _SENT_LATER) from error
                if control is None or control.ending is not None:
                    raise
                self._begin_waiting(error.message)
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
            else:
                self._end_waiting()
                return

    async def close(self) -> None:
        await self._queue.close()

    def _begin_waiting(self, why: str) -> None:
        if not self.trouble:
            log.warning("following waits for the event queue", extra={"error": why})
        self.trouble = why

    def _end_waiting(self) -> None:
        if self.trouble:
            log.warning("the event queue confirms again; following continues")
        self.trouble = ""
