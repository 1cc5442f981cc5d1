"""SIGKILL for a follower while it appends events: all are in the log, in order, with their ids."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.crash.event_roles import numbered
from tests.crash.nursery import Nursery, nursery_of
from tests.crash.spool_roles import read_log
from tests.support.long import times
from tests.support.program import wait_until
from trawlnet.crawlers.repos.events.event import RecordEvent, StampedEvent
from trawlnet.crawlers.repos.events.event_log import NAME, EventReader

KILLS = times(20, 40)


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    with nursery_of("event_roles", tmp_path) as nursery:
        yield nursery


def everything(workspace: Path) -> list[StampedEvent]:
    async def read() -> list[StampedEvent]:
        reader, found = EventReader(workspace), []
        at = await reader.start()
        while (batch := await reader.read(at)).end != at:
            found += batch.events
            at = batch.end
        return found

    return asyncio.run(read())


def keys_of(found: list[StampedEvent]) -> list[int]:
    events = [one.event for one in found]
    assert all(isinstance(event, RecordEvent) for event in events)
    keys = [int(event.rkey) for event in events if isinstance(event, RecordEvent)]
    assert events == [numbered(key) for key in keys], "none is torn or changed"
    return keys


def test_every_appended_event_is_there_over_many_kills(nursery: Nursery) -> None:
    cursor, dice = nursery.folder / "cursor", random.Random(3)

    def size() -> int:
        return cursor.stat().st_size if cursor.exists() else 0

    for _ in range(KILLS):
        assert nursery.kill_at_any_instant("follower", size, dice, most=60), "it had ended"
    # Behind what a kill has torn comes what is appended after it.
    pid, before = nursery.start("follower"), size()
    wait_until(lambda: size() > before + 50, "the last follower gets somewhere")
    nursery.kill(pid)

    found, appended = everything(nursery.folder), read_log(cursor)
    keys = keys_of(found)
    assert len(appended) > KILLS, "the followers got somewhere between the kills"
    assert set(appended) <= set(keys), "appended and not there"
    assert all(one.time_us < other.time_us for one, other in pairwise(found)), "times only grow"
    # Each run goes on where the cursor was, so what was there already comes once more, in order.
    assert all(after <= key + 1 for key, after in pairwise(keys)), "none is left out"
    assert sorted(set(keys)) == list(range(max(keys) + 1))
    assert len(keys) > len(set(keys)), "some kill came between the log and the cursor"
    *repaired, _ = sorted((nursery.folder / "spool" / NAME).glob("*.jsonl"))
    assert all(path.read_bytes()[-1:] in (b"", b"\n") for path in repaired), "no torn end is left"


def test_a_cursor_that_is_moved_first_is_caught_as_loss(nursery: Nursery) -> None:
    pid = nursery.start("early")
    cursor = nursery.folder / "cursor"
    wait_until(cursor.exists, "the cursor has moved")
    nursery.kill(pid)
    assert set(read_log(cursor)) - set(keys_of(everything(nursery.folder)))
