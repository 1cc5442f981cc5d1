"""The limit of the spool: the crawl waits when too many messages are not stored, to save disk."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from trawlnet.crawlers.ids.alerts import CRAWLER
from trawlnet.crawlers.ids.ledger.askers import Askers
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.observe.alerts.sender import Alerts
from trawlnet.observe.alerts.shapes import Alert, Level
from trawlnet.queues.queue import Queue

log = logging.getLogger(__name__)

SPOOL_FULL, SPOOL_HAS_ROOM = "spool full", "spool has room"
_LOOK_EVERY = 1.0
_ROOM_AGAIN = 0.9  # Share of the limit at which the crawl continues.


@dataclass(frozen=True, slots=True)
class SpoolLimit:
    """Stops requests, not publishing: answered ids are settled, and the crawl can end."""

    queue: Queue
    askers: Askers
    most: int  # Bytes that are published and not stored yet.
    alerts: Alerts
    clock: Clock

    async def watch(self, control: Control) -> None:
        """Runs beside the crawl."""
        while True:
            self.looked((await self.queue.counts()).backlog_bytes or 0)
            await self.clock.sleep(_LOOK_EVERY)

    def looked(self, backlog: int) -> None:
        full = has_no_room(backlog, self.most, waiting=self.askers.waiting)
        if full is self.askers.waiting:
            return
        self.askers.waiting = full
        title = SPOOL_FULL if full else SPOOL_HAS_ROOM
        text = f"{backlog:,} of {self.most:,} bytes are not stored yet"
        level = Level.WARNING if full else Level.INFO
        log.warning(title, extra={"backlog": backlog, "most": self.most})
        self.alerts.tell(Alert(CRAWLER, title, text, self.clock.now(), level))


def has_no_room(backlog: int, most: int, *, waiting: bool) -> bool:
    return backlog >= (_ROOM_AGAIN * most if waiting else most)
