"""The log of events: times that grow, places found by time, readers beside the writer."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.crawlers.repos.events.event import RecordEvent, StampedEvent, event_id
from trawlnet.crawlers.repos.events.event_log import (
    NAME,
    SPOOL,
    EventBatch,
    EventLog,
    EventReader,
    spool_log,
)
from trawlnet.crawlers.repos.events.event_queue import EventQueue
from trawlnet.malformed import Malformed
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Retention
from trawlnet.queues.spool_files import SpoolDirectory, read_lines
from trawlnet.queues.spool_log import SegmentsPruned, SpoolLog

PATIENCE = 120.0
ALL = Retention(1 << 40, 1e9)


def post(number: int, size: int = 0) -> RecordEvent:
    record = json.dumps({"text": "x" * size}).encode()
    return RecordEvent(
        "did:plc:a", f"3k{number:04}", "create", "a.b.c", f"{number}", "bafy", record
    )


async def appended(
    workspace: Path,
    batches: Sequence[Sequence[RecordEvent]],
    now: float = 1000.0,
    retention: Retention = ALL,
) -> None:
    log = await EventLog.open(workspace, lambda: now, retention)
    for batch in batches:
        await log.append(batch)
    await log.close()


async def everything(workspace: Path, at: SpoolPosition | None = None) -> list[StampedEvent]:
    reader, found = EventReader(workspace), []
    at = await reader.start() if at is None else at
    while (batch := await reader.read(at)).end != at:
        found += batch.events
        at = batch.end
    return found


def test_events_come_back_in_order_with_times_that_grow(tmp_path: Path) -> None:
    async def scenario() -> list[StampedEvent]:
        await appended(tmp_path, [[post(1), post(2)], [], [post(3)]])
        return await everything(tmp_path)

    found = asyncio.run(scenario())
    assert [one.event for one in found] == [post(1), post(2), post(3)]
    assert [one.time_us for one in found] == [1_000_000_000, 1_000_000_001, 1_000_000_002]


def test_times_grow_across_restarts_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    async def scenario() -> list[StampedEvent]:
        await appended(tmp_path, [[post(1)]], now=1000.0)
        await appended(tmp_path, [[post(2)]], now=10.0)
        (segment,) = (tmp_path / "spool" / NAME).glob("*002.jsonl")
        # Killed in the middle of a line, and then before the first one of a segment.
        with segment.open("ab") as file:
            file.write(b'{"id":"torn","time_us":99')
        (segment.parent / f"{NAME}-000000000003.jsonl").touch()
        await appended(tmp_path, [[post(3)]], now=10.0)
        return await everything(tmp_path)

    found = asyncio.run(scenario())
    assert [one.event for one in found] == [post(1), post(2), post(3)]
    assert [one.time_us for one in found] == [1_000_000_000, 1_000_000_001, 1_000_000_002]


def test_an_event_that_is_appended_again_has_the_same_id(tmp_path: Path) -> None:
    asyncio.run(appended(tmp_path, [[post(1)], [post(1)]]))
    lines = b"".join(path.read_bytes() for path in sorted((tmp_path / "spool" / NAME).glob("*l")))
    rows = [json.loads(line) for line in lines.splitlines()]
    assert [row["id"] for row in rows] == [event_id(post(1))] * 2
    assert rows[0]["time_us"] < rows[1]["time_us"]


def test_a_reader_follows_while_another_appends(tmp_path: Path) -> None:
    async def scenario() -> None:
        reader = EventReader(tmp_path, poll=0.01)
        following = reader.follow(await reader.end())
        log = await EventLog.open(tmp_path, lambda: 1000.0)
        async with asyncio.timeout(PATIENCE), aclosing(following) as batches:
            for number in range(5):
                await log.append([post(number)])
                batch = await anext(batches)
                assert [one.event for one in batch.events] == [post(number)]
        await log.close()

    asyncio.run(scenario())


def test_a_line_that_is_no_event_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> list[StampedEvent]:
        await appended(tmp_path, [[post(1)]])
        (segment,) = (tmp_path / "spool" / NAME).glob("*.jsonl")
        with segment.open("ab") as file:
            file.write(b'{"kind":"weather"}\n')
        await appended(tmp_path, [[post(2)]])
        return await everything(tmp_path)

    assert [one.event for one in asyncio.run(scenario())] == [post(1), post(2)]
    assert "line skipped" in caplog.text


def test_old_segments_go_and_readers_in_them_are_told(tmp_path: Path) -> None:
    small = Retention(20_000, 1e9)

    async def scenario() -> None:
        await appended(tmp_path, [[post(0)]], retention=small)
        reader = EventReader(tmp_path)
        early = (await reader.read(await reader.start())).end
        await appended(tmp_path, [[post(n, 1000)] for n in range(1, 101)], retention=small)
        sizes = [path.stat().st_size for path in (tmp_path / "spool" / NAME).glob("*.jsonl")]
        assert sum(sizes) <= 20_000 + 2 * 20_000 // 8 + 2000
        for at in (early, SpoolPosition(0, 0)):
            with pytest.raises(SegmentsPruned):
                await reader.read(at)
        kept = await everything(tmp_path)
        assert [one.event for one in kept] == [post(n, 1000) for n in range(101 - len(kept), 101)]
        assert 10 <= len(kept) < 30

    asyncio.run(scenario())


def test_age_takes_segments_that_nobody_has_written_to_for_long(tmp_path: Path) -> None:
    async def scenario() -> None:
        for number in range(4):
            await appended(tmp_path, [[post(number)]], retention=Retention(1 << 40, 3600.0))
            segments = sorted((tmp_path / "spool" / NAME).glob("*.jsonl"))
            age_by(segments[-1], 7200 * (4 - number))
        # The one before the newest stays: a reader may be at its end.
        assert [one.event for one in await everything(tmp_path)] == [post(2), post(3)]

    asyncio.run(scenario())


def age_by(path: Path, seconds: float) -> None:

    stat = path.stat()
    os.utime(path, (stat.st_atime, stat.st_mtime - seconds))


def test_a_reader_at_the_end_of_a_silent_log_misses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        await appended(tmp_path, [[post(1)]], retention=Retention(1, 0.0))
        reader = EventReader(tmp_path)
        at = await reader.end()
        await appended(tmp_path, [[post(2)]], retention=Retention(1, 0.0))
        batch = await reader.read(at)
        assert [one.event for one in batch.events] == [post(2)]

    asyncio.run(scenario())


def key_of(line: bytes) -> int:
    if not line.isdigit():
        raise Malformed("no number")
    return int(line)


@settings(max_examples=200)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40), st.booleans()), max_size=8),
        max_size=6,
    ),
    st.integers(-1, 200),
    st.binary(max_size=5).filter(lambda tail: b"\n" not in tail),
)
def test_a_place_is_found_by_its_key(
    tmp_path_factory: pytest.TempPathFactory,
    segments: list[list[tuple[int, int, bool]]],
    wanted: int,
    torn: bytes,
) -> None:
    """Against a scan of everything: segments may be empty, lines long, spoilt, the end torn."""
    folder = tmp_path_factory.mktemp("log")
    files, key, keys = SpoolDirectory(folder, "n"), 0, []
    for number, lines in enumerate(segments, start=1):
        text = b""
        for step, zeros, spoilt in lines:
            key += step
            raw = b"spoilt" if spoilt else b"0" * zeros + str(key).encode()
            keys += [] if spoilt else [key]
            text += raw + b"\n"
        files.segment(number).write_bytes(text + (torn if number == len(segments) else b""))
    log = SpoolLog(files, key_of, 1 << 20)
    at, found = log.find(wanted), []
    while True:
        lines_there, end = log.read(at)
        if end == at:
            break
        found += [int(line.raw) for line in lines_there if line.raw and line.raw.isdigit()]
        at = end
    assert found == [one for one in keys if one >= wanted]
    assert log.last_key() == (keys[-1] if keys else None)
    assert log.first_key() == (keys[0] if keys else None)
    assert log.end() == at or not read_lines(files, log.end(), 1 << 20)


def test_a_search_reads_little_of_a_long_log(tmp_path: Path) -> None:
    files = SpoolDirectory(tmp_path, "n")
    width = 100
    for number in range(1, 9):
        rows = (f"{key:0{width}}\n" for key in range(number * 10_000, number * 10_000 + 10_000))
        files.segment(number).write_text("".join(rows))
    looks = 0

    def counted(line: bytes) -> int:
        nonlocal looks
        looks += 1
        return int(line)

    log = SpoolLog(files, counted, 1 << 20)
    assert log.find(47_123) == SpoolPosition(4, 7_123 * (width + 1))
    assert looks < 40


def test_a_batch_is_one_write_and_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    calls: list[str] = []
    write, sync = os.write, os.fsync

    async def scenario() -> None:
        log = await EventLog.open(tmp_path, lambda: 1000.0)
        await log.append([post(0)])
        monkeypatch.setattr(os, "write", lambda *a: calls.append("write") or write(*a))
        monkeypatch.setattr(os, "fsync", lambda *a: calls.append("fsync") or sync(*a))
        await log.append([replace(post(n), rkey=f"k{n}") for n in range(1000)])
        await log.close()

    asyncio.run(scenario())
    assert calls == ["write", "fsync"]


def test_what_only_the_spool_has_goes_to_the_server_as_it_is(tmp_path: Path) -> None:
    """A kill came between the two."""

    async def scenario() -> tuple[list[bytes], list[bytes]]:
        await appended(tmp_path, [[post(1), post(2)]])
        spool = spool_log(tmp_path)
        server = await open_queue(tmp_path / "server", NAME)
        mine = await open_queue(tmp_path / SPOOL, NAME)
        log = EventLog(mine, lambda: 2000.0, spool, spool.last_key() or 0, EventQueue(server))
        before_us = log.last_us
        await appended(tmp_path, [[replace(post(3), occasion="again"), post(4)]])
        assert list(log.after(before_us)) == [post(3), post(4)]
        await log.repeat(before_us)
        await log.close()
        return lines_in(tmp_path / SPOOL / NAME), lines_in(tmp_path / "server" / NAME)

    spooled, sent = asyncio.run(scenario())
    assert len(spooled) == 4, "they are not published twice"
    assert sent == spooled[2:]


def lines_in(folder: Path) -> list[bytes]:
    return [
        line
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_bytes().split(b"\n")[:-1]
    ]


def test_a_batch_says_where_to_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        await appended(tmp_path, [[post(1), post(2)]])
        reader = EventReader(tmp_path)
        batch = await reader.read(await reader.start())
        assert batch.end == await reader.end()
        assert await reader.read(batch.end) == EventBatch([], batch.end)
        assert (await reader.read(await reader.find(1_000_000_001))).events == [
            StampedEvent(1_000_000_001, post(2))
        ]

    asyncio.run(scenario())
