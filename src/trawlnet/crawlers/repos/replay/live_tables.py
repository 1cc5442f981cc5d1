"""The table of records as the log of events grows: what is missing there is replayed from the
archive first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trawlnet.archive.reader import NoArchive
from trawlnet.crawlers.repos.events.event import AccountEvent, RecordEvent, StampedEvent
from trawlnet.crawlers.repos.events.event_log import EventReader
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import Replay
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.spool_log import SegmentsPruned
from trawlnet.storage.errors import SinkError
from trawlnet.tables.clickhouse.live_records import (
    RecordChange,
    clear_repos,
    insert_changes,
    live_position,
    save_live_position,
)
from trawlnet.tables.clickhouse.ports import Tables
from trawlnet.tables.errors import TablesError

log = logging.getLogger(__name__)

_EVENTS = 20_000  # In one insert, about,
_BYTES = 32 << 20  # or of so many bytes of records.
_PAUSE = 0.5  # Seconds between two looks at the log: each insert makes a part that is merged later.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # Seconds before the next try, doubling.
_OFFSET_BITS: Final = 40
_TROUBLES = (TablesError, SinkError, OSError)


class LiveTables:
    """A companion of a crawl. Tables that are away cost nothing but time: the log waits, and where
    it could not wait long enough, the archive has it all."""

    def __init__(self, tables: Tables, events: EventReader, archive: Path, clock: Clock) -> None:
        self._tables = tables
        self._events = events
        self._archive = archive
        self._clock = clock
        self._applied_us = 0  # Instant of the newest event that is in the table.
        self._is_current = False
        self._has_gap = False  # Events were deleted before they were read.
        self._trouble = ""

    async def run(self, control: Control) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                at = await self.begin()
                wait = _FIRST_WAIT
                while True:
                    at = await self.go_on(at)
                    if self._is_current:
                        await self._clock.sleep(_PAUSE)
            except SegmentsPruned as pruned:
                log.warning("events were deleted unread", extra={"why": str(pruned)})
                self._has_gap = True
            except _TROUBLES as error:
                self._trouble = str(error)
                fields = {"error": str(error), "again_in": wait}
                log.warning("table of records not written", extra=fields)
                await self._clock.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)

    async def begin(self) -> SpoolPosition:
        saved = await live_position(self._tables)
        if saved is None or self._has_gap:
            return await self.start_over()
        at = SpoolPosition(saved >> _OFFSET_BITS, saved & (1 << _OFFSET_BITS) - 1)
        if at > await self._events.end():
            # The log was deleted, and is another one now.
            return await self.start_over()
        return at

    async def start_over(self) -> SpoolPosition:
        """All that the log has said by now is in the archive, which is written first."""
        end = await self._events.end()
        log.info("replaying the archive into the table of records")
        replay = Replay(self._tables, CollectionFilter(), asyncio.Event())
        try:
            await replay.run(self._archive, 1)
        except NoArchive:
            pass
        done = replay.done
        fields = {"repos": done.repos, "records": done.records, "damaged": len(done.damage)}
        log.info("replayed", extra=fields)
        await self._save(end)
        self._has_gap = False
        return end

    async def go_on(self, at: SpoolPosition) -> SpoolPosition:
        """The next events, up to a limit; where to read on."""
        found: list[StampedEvent] = []
        size, begun = 0, at
        while len(found) < _EVENTS and size < _BYTES:
            batch = await self._events.read(at)
            if batch.end == at:
                break
            at = batch.end
            found += batch.events
            size += sum(_size(one) for one in batch.events)
        self._is_current = at == begun or (len(found) < _EVENTS and size < _BYTES)
        if at != begun:
            await apply_events(self._tables, found)
            # Afterwards: who is killed before inserts the same rows again, which changes nothing.
            await self._save(at)
        if found:
            self._applied_us = found[-1].time_us
        self._trouble = ""
        return at

    async def _save(self, at: SpoolPosition) -> None:
        await save_live_position(self._tables, at.segment << _OFFSET_BITS | at.offset)

    def facts(self) -> Mapping[str, Any]:
        """For `status`."""
        behind: float | None = None
        if self._applied_us and not self._is_current:
            behind = max(0.0, round(self._clock.now() - self._applied_us / 1e6, 3))
        elif self._is_current and not self._trouble:
            behind = 0.0
        trouble = {"trouble": self._trouble} if self._trouble else {}
        return {"seconds_behind": behind, **trouble}


async def apply_events(tables: Tables, events: list[StampedEvent]) -> None:
    """Of a record that changed several times the last change is enough."""
    changes: dict[tuple[str, str, str], RecordChange] = {}
    gone: dict[str, int] = {}
    for one in events:
        event = one.event
        if isinstance(event, RecordEvent):
            place = event.did, event.collection, event.rkey
            text = b"" if event.operation == "delete" else event.record or b"null"
            changes[place] = RecordChange(*place, event.operation, text, one.time_us)
        elif isinstance(event, AccountEvent) and not event.active:
            gone[event.did] = one.time_us
    await insert_changes(tables, list(changes.values()))
    if gone:
        # After the changes: some of them may be of before the account went.
        await clear_repos(tables, gone)


def _size(one: StampedEvent) -> int:
    event = one.event
    return len(event.record or b"") if isinstance(event, RecordEvent) else 0
