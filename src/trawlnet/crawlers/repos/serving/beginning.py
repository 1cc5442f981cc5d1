"""Where a client's stream begins: live, in the log, or with the archive."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.crawlers.repos.events.event_log import EventReader
from trawlnet.crawlers.repos.serving.replay_cursor import FIRST_TIME, ReplayCursor, decode_cursor
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.spool_log import SegmentsPruned

_JUST_NOW_US = 60_000_000  # With an empty log, a cursor as young as that has missed nothing.


@dataclass(frozen=True, slots=True)
class Beginning:
    """First the archive, if there is a replay, then the log from a place; None: from its end."""

    at: SpoolPosition | None
    replay: ReplayCursor | None = None


LIVE = Beginning(None)


async def beginning(reader: EventReader, cursor: int | None, now_us: int) -> Beginning:
    """The place in the log is taken before anything is read from the archive: whatever changes
    there from now on is told by the log."""
    if cursor is None:
        return LIVE
    last = await reader.last_time()
    # By the log and not by the clock: that may have been set back.
    newest = now_us if last is None else last
    try:
        found = await _in_log(reader, cursor, max(now_us, newest))
    except SegmentsPruned:
        found = None  # While we looked.
    return found or Beginning(await reader.end(), ReplayCursor(newest, 0))


async def _in_log(reader: EventReader, cursor: int, now_us: int) -> Beginning | None:
    """None where the log does not reach back so far. A cursor of the future finds its end."""
    first = await reader.first_time()
    if cursor >= FIRST_TIME:
        if first is None:
            return LIVE if cursor > now_us - _JUST_NOW_US else None
        return Beginning(await reader.find(cursor)) if cursor >= first else None
    replay = decode_cursor(cursor, now_us)
    if replay is None:
        return None
    if await reader.is_whole() or (first is not None and first <= replay.begun_us):
        return Beginning(await reader.find(replay.begun_us), replay)
    return None
