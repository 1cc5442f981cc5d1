"""The spool's own promises: names, rotation, torn lines, bookmark, locks, a full disk."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.queues import spool_reader
from trawlnet.queues.acks import AckMark, SpoolPosition
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import QueueOptions
from trawlnet.queues.spool import Spool
from trawlnet.queues.spool_files import SpoolDirectory
from trawlnet.sim.virtual import run_sim
from trawlnet.storage.errors import SinkBusy, SinkError


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[Spool]:
    options.setdefault("poll", 0.01)
    spool = Spool(folder / "finds", "finds", QueueOptions(**options))
    try:
        async with asyncio.timeout(60):
            yield spool
    finally:
        await spool.close()


async def drained(spool: Spool) -> list[int]:
    keys = []
    async for delivery in spool.consume(drain=True):
        keys.append(delivery.body["key"])
        await delivery.ack()
    return keys


def numbered(*keys: int) -> list[dict[str, Any]]:
    return [{"key": key} for key in keys]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "finds").glob("finds-*.jsonl"))


def bookmark(folder: Path) -> Any:
    return orjson.loads((folder / "finds" / "finds.bookmark.json").read_bytes())


def test_segments_are_plain_jsonl_whose_names_sort_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        for start in range(0, 36, 3):
            async with opened(tmp_path, segment_bytes=20) as spool:
                await spool.publish(numbered(start, start + 1))
                await spool.publish(numbered(start + 2))

    asyncio.run(scenario())
    lines = [line for path in segments(tmp_path) for line in path.read_bytes().splitlines()]
    assert [orjson.loads(line)["key"] for line in lines] == list(range(36))
    assert len(segments(tmp_path)) == 24


def test_publish_returns_after_the_last_byte_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    write, fsync = os.write, os.fsync

    def noted_write(fd: int, data: Any) -> int:
        events.append("write")
        return write(fd, data)

    def noted_fsync(fd: int) -> None:
        fsync(fd)
        events.append("fsync")

    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(0))
            monkeypatch.setattr(os, "write", noted_write)
            monkeypatch.setattr(os, "fsync", noted_fsync)
            await spool.publish(numbered(1, 2, 3))
            assert events == ["write", "fsync"], "one write and one fsync for a batch"
            assert segments(tmp_path)[0].read_bytes().count(b"\n") == 4

    asyncio.run(scenario())


def test_a_torn_line_is_not_consumed_and_the_next_writer_cuts_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(1, 2))
        with segments(tmp_path)[0].open("ab") as file:
            file.write(b'{"key":3')
        async with opened(tmp_path) as spool:
            assert await drained(spool) == [1, 2]
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(4))
            assert segments(tmp_path)[0].read_bytes().endswith(b'{"key":2}\n')
            assert await drained(spool) == [4]
            assert (await spool.counts()).poisoned == 0

    asyncio.run(scenario())


def test_a_line_in_two_writes_is_consumed_once_it_is_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "finds").mkdir()
        segment = tmp_path / "finds" / "finds-000000000001.jsonl"
        segment.write_bytes(b'{"key"')
        async with opened(tmp_path) as spool, aclosing(spool.consume()) as deliveries:
            waiting = asyncio.ensure_future(anext(deliveries))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            with segment.open("ab") as file:
                file.write(b":1}\n")
            assert (await waiting).body == {"key": 1}

    asyncio.run(scenario())


def test_lines_written_just_before_the_next_segment_began_are_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolDirectory(tmp_path, "finds")
    files.segment(1).write_bytes(b"")
    look_ahead = SpoolDirectory.after

    def writer_is_quick(self: SpoolDirectory, number: int, newest_known: int) -> int | None:
        """Between the reader's look at the segment and its look for the next one."""
        if not files.segment(2).exists():
            files.segment(1).write_bytes(b'{"key":1}\n')
            files.segment(2).write_bytes(b'{"key":2}\n')
        return look_ahead(self, number, newest_known)

    monkeypatch.setattr(SpoolDirectory, "after", writer_is_quick)
    lines, place = spool_reader.read_on(files, SpoolPosition(1, 0), longest=100)
    assert [line.raw for line in lines] == [b'{"key":1}']
    assert place == SpoolPosition(1, 10)


def test_the_bookmark_waits_for_the_first_message_not_acked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(0, 1, 2, 3))
            async with aclosing(spool.consume()) as deliveries:
                held = [await anext(deliveries) for _ in range(4)]
                await held[0].ack()
                await held[2].ack()
                await held[3].ack()
        assert bookmark(tmp_path) == {"file": "finds-000000000001.jsonl", "offset": 10}
        async with opened(tmp_path) as spool:
            assert await drained(spool) == [1, 2, 3]
        assert bookmark(tmp_path)["offset"] == 40

    asyncio.run(scenario())


@pytest.mark.parametrize("keep", [False, True])
def test_acked_segments_go_unless_they_are_to_be_kept(tmp_path: Path, keep: bool) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, segment_bytes=1, keep=keep) as spool:
            for key in range(5):
                await spool.publish(numbered(key))
            assert await drained(spool) == list(range(5))
            assert len(segments(tmp_path)) == (5 if keep else 1)
            assert (await spool.counts()).backlog_bytes == 0
        async with opened(tmp_path, keep=keep) as spool:
            assert await drained(spool) == []

    asyncio.run(scenario())


def test_numbers_are_not_used_again_when_somebody_empties_the_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(1, 2))
            await drained(spool)
        for path in segments(tmp_path):
            path.unlink()
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(3))
            assert await drained(spool) == [3]
        assert segments(tmp_path)[-1].name == "finds-000000000002.jsonl"

    asyncio.run(scenario())


def test_a_deleted_segment_in_the_middle_does_not_stop_the_reader(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, segment_bytes=1) as spool:
            for key in range(4):
                await spool.publish(numbered(key))
            segments(tmp_path)[1].unlink()
            assert await drained(spool) == [0, 2, 3]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"{",
        b"[]",
        b'{"file": "other-000000000001.jsonl", "offset": 0}',
        b'{"file": "finds-000000000001.jsonl", "offset": -1}',
        b'{"file": "finds-000000000001.jsonl", "offset": "3"}',
        b'{"file": "finds-000000000001.jsonl", "offset": 3}',
        b'{"file": "../finds-000000000001.jsonl", "offset": 0}',
    ],
)
def test_a_damaged_bookmark_is_refused_with_what_to_type(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "finds" / "finds.bookmark.json"

    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(1))
        file.write_bytes(content)
        async with opened(tmp_path) as spool:
            with pytest.raises(SinkError, match="damaged") as caught:
                await drained(spool)
            assert f"rm '{file}'" in caught.value.hint
            with pytest.raises(SinkError, match="damaged"):
                await spool.publish(numbered(2))
            file.unlink()
            assert await drained(spool) == [1]

    asyncio.run(scenario())


def test_a_bookmark_beyond_its_segment_goes_on_with_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(1))
        place = {"file": segments(tmp_path)[0].name, "offset": 5000}
        (tmp_path / "finds" / "finds.bookmark.json").write_bytes(orjson.dumps(place))
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(2))
            assert await drained(spool) == [2]

    asyncio.run(scenario())


def test_there_is_one_writer_and_one_reader_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as one, opened(tmp_path) as two:
            await one.publish(numbered(1))
            with pytest.raises(SinkBusy, match=f"in use by pid {os.getpid()}"):
                await two.publish(numbered(2))
            async with aclosing(two.consume()) as deliveries:
                await (await anext(deliveries)).ack()
                with pytest.raises(SinkBusy):
                    await anext(one.consume())
                # The two halves of a spool work as two processes would.
                await one.publish(numbered(3))
                assert (await anext(deliveries)).body == {"key": 3}
        async with opened(tmp_path) as three:
            await three.publish(numbered(4))
            assert await drained(three) == [3, 4]

    asyncio.run(scenario())


def test_a_publisher_is_let_go_by_the_acks_of_another_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, backlog_bytes=30) as writer, opened(tmp_path) as reader:
            await writer.publish(numbered(1, 2, 3))
            blocked = asyncio.create_task(writer.publish(numbered(4)))
            await asyncio.sleep(0.05)
            assert not blocked.done()
            assert await drained(reader) == [1, 2, 3]
            await blocked
            assert await drained(reader) == [4]

    asyncio.run(scenario())


def test_a_backlog_of_poison_lets_the_publisher_go_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "finds").mkdir()
        (tmp_path / "finds" / "finds-000000000001.jsonl").write_bytes(b"poison\n" * 10)
        async with opened(tmp_path, backlog_bytes=30) as spool:
            consumer = spool.consume()
            first = asyncio.ensure_future(anext(consumer))
            await spool.publish(numbered(1))
            assert (await first).body == {"key": 1}
            assert (await spool.counts()).poisoned == 10
            await consumer.aclose()

    asyncio.run(scenario())


def test_a_bookmark_that_cannot_be_saved_still_lets_go_of_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scenario() -> None:
        spool = Spool(tmp_path / "finds", "finds", QueueOptions())
        await spool.publish(numbered(1, 2))
        async with aclosing(spool.consume()) as deliveries:
            await (await anext(deliveries)).ack()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(SinkError, match="saving bookmark"):
                await spool.close()
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(3))
            assert await drained(spool) == [1, 2, 3]

    asyncio.run(scenario())


def test_a_line_too_long_for_memory_is_kept_in_a_file_of_its_own(tmp_path: Path) -> None:
    long = b'{"key":"' + b"z" * 3_000_000 + b'"}'

    async def scenario() -> None:
        (tmp_path / "finds").mkdir()
        segment = tmp_path / "finds" / "finds-000000000001.jsonl"
        segment.write_bytes(b'{"key":1}\n' + long + b'\n{"key":2}\n')
        async with opened(tmp_path, message_bytes=1000) as spool:
            assert await drained(spool) == [1, 2]
            assert (await spool.counts()).poisoned == 1
        record = orjson.loads((tmp_path / "finds" / "finds.poison.jsonl").read_bytes())
        assert record["place"] == "finds-000000000001.jsonl@10"
        assert (tmp_path / "finds" / record["raw_file"]).read_bytes() == long

    asyncio.run(scenario())


def test_a_full_disk_is_one_clear_error_and_later_messages_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(fd: int, data: Any) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[: len(data) // 2])

    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(1))
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", full)
                with pytest.raises(SinkError, match="No space left") as caught:
                    await spool.publish(numbered(2, 3, 4))
                assert "free some space" in caught.value.hint
            await spool.publish(numbered(2, 3, 4))
            assert await drained(spool) == [1, 2, 3, 4]

    asyncio.run(scenario())


def test_a_cancelled_publisher_leaves_whole_lines_and_a_woken_consumer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, poll=1000) as spool:
            await spool.publish(numbered(0))
            async with aclosing(spool.consume()) as deliveries:
                await (await anext(deliveries)).ack()
                waiting = asyncio.ensure_future(anext(deliveries))
                publishing = asyncio.create_task(spool.publish(numbered(1)))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                publishing.cancel()
                await spool.publish(numbered(2))
                assert (await waiting).body["key"] in (1, 2)
        assert all(path.read_bytes().endswith(b"\n") for path in segments(tmp_path))

    asyncio.run(scenario())


def test_a_stuck_message_bounds_how_far_the_others_run_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_reader, "WINDOW", 5)

    async def scenario() -> None:
        # One message per segment: the window is looked at before each segment is read.
        async with opened(tmp_path, segment_bytes=1) as spool:
            for key in range(20):
                await spool.publish(numbered(key))
            async with aclosing(spool.consume()) as deliveries:
                stuck = await anext(deliveries)
                for _ in range(4):
                    await (await anext(deliveries)).ack()
                waiting = asyncio.ensure_future(anext(deliveries))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                await stuck.ack()
                assert (await waiting).body == {"key": 5}

    asyncio.run(scenario())


def test_closing_ends_a_waiting_consumer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as spool:
            await spool.publish(numbered(1))
            held = []

            async def work() -> None:
                async for delivery in spool.consume():
                    held.append(delivery)

            worker = asyncio.create_task(work())
            while not held:
                await asyncio.sleep(0)
            await spool.close()
            await worker
            await held[0].ack()  # Too late: it comes again.
        async with opened(tmp_path) as spool:
            assert await drained(spool) == [1]

    asyncio.run(scenario())


def test_a_name_or_place_that_cannot_be_a_queue_is_refused(tmp_path: Path) -> None:
    for where, name in ((tmp_path, "../up"), (tmp_path, ""), ("http://localhost/", "finds")):
        with pytest.raises(SinkError) as caught:
            asyncio.run(open_queue(where, name))
        assert caught.value.hint


@given(st.permutations(range(12)))
def test_the_low_water_mark_never_passes_a_message_that_is_not_done(order: list[int]) -> None:
    acks = AckMark(SpoolPosition(1, 0))
    tickets = [acks.ticket(SpoolPosition(1, n + 1)) for n in range(len(order))]
    done: set[int] = set()
    for n in order:
        acks.done(tickets[n])
        done.add(n)
        first_open = next((k for k in range(len(order)) if k not in done), len(order))
        assert acks.mark == SpoolPosition(1, first_open)
    assert len(acks) == 0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("consume"), st.lists(st.booleans(), min_size=1, max_size=6)),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("tear"), st.integers(1, 9)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(1, 60), st.booleans())
def test_whatever_happens_each_message_comes_until_it_is_acked(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[str, Any]],
    segment_bytes: int,
    keep: bool,
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    asyncio.run(_follow(folder, script, {"segment_bytes": segment_bytes, "keep": keep}))


async def _follow(folder: Path, script: list[tuple[str, Any]], options: dict[str, Any]) -> None:
    published, acked = 0, set[int]()
    spool = Spool(folder / "finds", "finds", QueueOptions(**options))
    for verb, detail in script:
        match verb:
            case "publish":
                await spool.publish(numbered(*range(published, published + detail)))
                published += detail
            case "consume":
                acked |= await _ack_some(spool, detail, published - len(acked))
            case "reopen" | "tear":
                await spool.close()
                if verb == "tear" and segments(folder):
                    with segments(folder)[-1].open("ab") as file:
                        file.write(b'{"key":77'[:detail])
                spool = Spool(folder / "finds", "finds", QueueOptions(**options))
    rest = await drained(spool)
    await spool.close()
    assert set(rest) | acked == set(range(published))
    assert rest == sorted(rest), "in order"
    assert len(rest) == len(set(rest)), "each once while no consumer breaks off"
    assert not (folder / "finds" / "finds.poison.jsonl").exists()


async def _ack_some(spool: Spool, choices: list[bool], available: int) -> set[int]:
    """Take a few messages and ack those that were chosen; the others go back."""
    acked = set()
    async with aclosing(spool.consume()) as deliveries:
        for chosen in choices[: max(0, available)]:
            try:
                async with asyncio.timeout(60):
                    delivery = await anext(deliveries)
            except TimeoutError:
                raise AssertionError("a message that was not acked did not come") from None
            if chosen:
                await delivery.ack()
                acked.add(delivery.body["key"])
    return acked


def test_a_publisher_that_waits_for_nobody_says_so_and_goes_on_when_it_is_to_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> float:
        spool = Spool(tmp_path, "q", QueueOptions(backlog_bytes=50, when_full="read it"))
        await spool.publish([{"n": "x" * 60}])
        await asyncio.sleep(1.0)  # Until the loop is told what was written.
        loop = asyncio.get_running_loop()
        began = loop.time()
        loop.call_later(60.0, setattr, spool, "closing", lambda: True)
        await spool.publish([{"n": 2}])
        await spool.close()
        return loop.time() - began

    assert 60.0 <= run_sim(main()) < 61.0
    (told,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert told.message == "the queue is full: waiting until its consumer has caught up; read it"
    assert told.__dict__["unread_bytes"] > told.__dict__["limit_bytes"] == 50
    lines = b"".join(path.read_bytes() for path in tmp_path.glob("*.jsonl")).splitlines()
    assert len(lines) == 2
