"""SIGKILL behind every statement that brings changes into the table of records."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from pathlib import Path

from tests.support import child
from tests.support.long import times
from tests.support.repos.archive_rows import block_of, write_segment
from trawlnet.crawlers.repos.events.event import AccountEvent, RecordEvent, RepoEvent
from trawlnet.crawlers.repos.events.event_log import EventLog
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query

POST = "app.bsky.feed.post"
DIDS = [f"did:plc:{letter * 24}" for letter in "abc"]
CURRENT = Query("current", "SELECT repo, rkey, record_json FROM repo_records FINAL ORDER BY ALL")
BEGINNING = 4  # Repositories, their records, the segment, and the position.
STATEMENTS = 4  # Changes; who is gone, and their records; the position.
ROUNDS = times(4, 12)


def test_whichever_statement_is_the_last_the_table_is_what_the_log_says(tmp_path: Path) -> None:
    dice = random.Random(8)
    truth: dict[tuple[str, str], bytes] = {(did, "old"): b"0" for did in DIDS}
    blocks = [(did, block_of(did, {POST: [("old", b"0")]})) for did in DIDS]
    write_segment(tmp_path / "archive/segment_0001.rca", blocks)
    killed = 0
    while run(tmp_path, killed + 1) == -signal.SIGKILL:
        killed += 1
    assert killed >= BEGINNING, "and once it has come to the end of the archive"
    for number in range(ROUNDS):
        asyncio.run(append(tmp_path, [drawn(dice, truth) for _ in range(150)]))
        killed += run(tmp_path, 1 + number % STATEMENTS) == -signal.SIGKILL
    assert killed >= BEGINNING + ROUNDS - 1, "nearly every one dies at its work"
    assert run(tmp_path, 0) == 0
    assert asyncio.run(current(tmp_path)) == sorted(
        [did, rkey, text.decode()] for (did, rkey), text in truth.items()
    )


def drawn(dice: random.Random, truth: dict[tuple[str, str], bytes]) -> RepoEvent:
    did, rkey = dice.choice(DIDS), f"k{dice.randrange(30)}"
    if dice.random() < 0.02:
        for place in [place for place in truth if place[0] == did]:
            del truth[place]
        return AccountEvent(did, False, "deactivated", 1, "")
    if (did, rkey) in truth and dice.random() < 0.4:
        del truth[did, rkey]
        return RecordEvent(did, "3k", "delete", POST, rkey, None, None)
    word = "update" if (did, rkey) in truth else "create"
    text = truth[did, rkey] = str(dice.randrange(1_000)).encode()
    return RecordEvent(did, "3k", word, POST, rkey, "bafy", text)


def run(folder: Path, number: int) -> int:
    command = child.module("crash.live_tables_role", str(folder), str(number))
    return subprocess.run(command, env=child.environment(), timeout=120, check=False).returncode


async def append(folder: Path, events: list[RepoEvent]) -> None:
    log = await EventLog.open(folder, lambda: 1_800_000_000.0)
    await log.append(events)
    await log.close()


async def current(folder: Path) -> list[list[str]]:
    async with opened(folder / "tables") as tables:
        return await tables.rows(CURRENT)
