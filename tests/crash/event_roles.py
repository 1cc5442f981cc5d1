"""A follower that appends to the event log, for the nursery, and one that notes too early."""

from __future__ import annotations

import asyncio
import random
import zlib
from pathlib import Path

from tests.crash.spool_roles import note, read_log, write_in_pieces
from trawlnet.crawlers.repos.events.event import RecordEvent
from trawlnet.crawlers.repos.events.event_log import EventLog
from trawlnet.queues.queue import Retention
from trawlnet.storage import files

RETENTION = Retention(1 << 30, 1e9)


def numbered(key: int) -> RecordEvent:
    text = f'{{"n":{key},"text":"{zlib.crc32(str(key).encode()):08x}"}}'.encode()
    return RecordEvent("did:plc:a", f"{key:013}", "create", "a.b.c", str(key), "bafy", text)


async def follow(folder: Path, *, early: bool = False) -> None:
    """As a follower does: append, then move the cursor. After a kill it begins at the cursor."""
    files.write_all = write_in_pieces
    # Its clock goes back with every start.
    starts = len(read_log(folder / "starts"))
    note(folder / "starts", [starts])
    log = await EventLog.open(folder, lambda: 1_000_000.0 - starts, RETENTION)
    first = 1 + max(read_log(folder / "cursor"), default=-1)
    while True:
        keys = range(first, first + random.randint(1, 6))
        first = keys.stop
        if early:
            note(folder / "cursor", keys)
            await asyncio.sleep(3600)
        await log.append([numbered(key) for key in keys])
        note(folder / "cursor", keys)


ROLES = {"follower": follow, "early": lambda folder: follow(folder, early=True)}
