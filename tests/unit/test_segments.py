"""Segments as they are written: byte by byte, rotated, and recovered wherever they were cut."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.full_disk import FullDisk
from tests.support.repos.made_segments import NOW, dids_in, make_block, write, writer_of
from tests.support.repos.provable import provable_block, signed_car, some_records
from trawlnet.archive.entries import BlockEntry, EntryLog
from trawlnet.archive.format import index as rcaindex
from trawlnet.archive.format import rca
from trawlnet.archive.reader import find_segments, open_segment
from trawlnet.archive.segment_file import check
from trawlnet.archive.sink import SegmentSink
from trawlnet.archive.verify import verify_segment
from trawlnet.engine.task import Task
from trawlnet.storage.errors import SinkBusy, SinkError

HEADER = 64
CREATED = bytes.fromhex("00401e18240a0600")  # 1,700,000,000 seconds in microseconds.


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is in the files, not of when it is durable."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def blocks_of(*names: str) -> list[bytes]:
    return [make_block(f"did:plc:{name}") for name in names]


def tasks(blocks: list[bytes]) -> list[tuple[Task, list[bytes]]]:
    return [(Task(str(n), "lane"), [block]) for n, block in enumerate(blocks)]


def assert_sound(folder: Path) -> None:
    for path in find_segments(folder):
        verdict = verify_segment(path)
        assert verdict.sound and verdict.finalised, verdict.damage


def test_a_segment_has_the_bytes_of_the_tables(tmp_path: Path) -> None:
    b, a = blocks_of("b", "a")
    path = tmp_path / "segment_0001.rca"
    writer = writer_of(tmp_path)
    writer.append([check(b), check(a)])
    unfinished = b"REPOARCH\x01\0\0\0" + CREATED + bytes(44)
    assert path.read_bytes() == unfinished + b + a
    writer.close()

    index_at = HEADER + len(a) + len(b)
    index = (
        b"\2\0\0\0"
        b"\x09\0did:plc:a"
        + struct.pack("<qII", HEADER + len(b), len(a), crc32(a))
        + b"\x09\0did:plc:b"
        + struct.pack("<qII", HEADER, len(b), crc32(b))
    )
    footer = struct.pack("<qIII", index_at, len(index), 2, crc32(index)) + bytes(4) + b"REPOARCH"
    header = b"REPOARCH\x01\0\0\0" + CREATED + b"\2\0\0\0" + struct.pack("<q", index_at) + bytes(32)
    assert path.read_bytes() == header + b + a + index + footer


def test_the_sink_is_durable_on_return_and_finalised_on_close(tmp_path: Path) -> None:
    async def scenario() -> None:
        sink = await SegmentSink.open(tmp_path / "archive", lambda: NOW)
        await sink.write([])
        await sink.write([(Task("a listing", "lane"), [])])
        assert sink.segment_number == 0 and dids_in(tmp_path / "archive") == []
        blocks = blocks_of("x", "y", "z")
        await sink.write(tasks(blocks))
        assert dids_in(tmp_path / "archive") == ["did:plc:x", "did:plc:y", "did:plc:z"]
        assert not open_segment(tmp_path / "archive" / "segment_0001.rca").finalised
        assert sink.bytes_written == sum(map(len, blocks)) and sink.repos_written == 3
        assert sink.segments_finalised == 0
        await sink.close()
        assert sink.segments_finalised == 1

    asyncio.run(scenario())
    assert_sound(tmp_path / "archive")


def test_one_fsync_makes_a_batch_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, synced, fsync = writer_of(tmp_path), [], os.fsync
    writer.append([check(block) for block in blocks_of("first")])
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), fsync(fd)))
    writer.append([check(block) for block in blocks_of("a", "b", "c", "d")])
    assert len(synced) == 1
    writer.close()


def test_a_segment_that_reaches_its_size_is_the_last_to_grow(
    tmp_path: Path, no_fsync: None
) -> None:
    blocks = blocks_of(*"abcdefg")
    size = HEADER + 2 * len(blocks[0])
    write(tmp_path, blocks, segment_bytes=size)
    assert [path.name for path in find_segments(tmp_path)] == [
        f"segment_000{n}.rca" for n in (1, 2, 3, 4)
    ]
    counts = [open_segment(path).header.repo_count for path in find_segments(tmp_path)]
    assert counts == [2, 2, 2, 1]
    assert_sound(tmp_path)


def test_no_empty_segment_is_left_at_the_end(tmp_path: Path, no_fsync: None) -> None:
    write(tmp_path, blocks_of("a", "b"), segment_bytes=100)
    writer_of(tmp_path).close()
    assert len(find_segments(tmp_path)) == 2
    (tmp_path / "segment_0003.rca").write_bytes(
        rca.encode_header(rca.Header(1, repo_count=0, index_offset=0))
    )
    writer_of(tmp_path).close()
    assert len(find_segments(tmp_path)) == 2


def test_a_number_is_never_used_again(tmp_path: Path, no_fsync: None) -> None:
    write(tmp_path, blocks_of("a"))
    write(tmp_path, blocks_of("b"))
    (tmp_path / "segment_0002.rca").unlink()
    write(tmp_path, blocks_of("c"))
    (tmp_path / "segment_0009.rca").write_bytes((tmp_path / "segment_0001.rca").read_bytes())
    write(tmp_path, blocks_of("d"))
    names = [path.name for path in find_segments(tmp_path)]
    assert names == [f"segment_{n:04d}.rca" for n in (1, 3, 9, 10)]


def test_segments_are_in_the_order_of_their_numbers(tmp_path: Path, no_fsync: None) -> None:
    write(tmp_path, blocks_of("old"))
    (tmp_path / "segment_0001.rca").rename(tmp_path / "segment_9999.rca")
    write(tmp_path, blocks_of("new"))
    assert dids_in(tmp_path) == ["did:plc:old", "did:plc:new"]


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    with pytest.raises(SinkBusy, match="in use by pid"):
        writer_of(tmp_path)
    writer.close()
    writer_of(tmp_path).close()


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + b"\0", lambda b: b[4:]])
def test_a_block_that_a_recovery_would_cut_is_not_written(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    with pytest.raises(rca.RcaError):
        check(damage(make_block("did:plc:x")))
    with pytest.raises(rca.RcaError, match="DID"):
        check(make_block("plc:x"))


def whole_segment(folder: Path) -> tuple[bytes, list[int], list[str]]:
    """A finalised one, where its blocks end, and their DIDs."""
    blocks = [*blocks_of("a", "b"), make_block("did:plc:empty", collections={}), *blocks_of("c")]
    write(folder, blocks)
    (path,) = find_segments(folder)
    data = path.read_bytes()
    path.unlink()
    ends = [HEADER]
    for block in blocks:
        ends.append(ends[-1] + len(block))
    return data, ends, ["did:plc:a", "did:plc:b", "did:plc:empty", "did:plc:c"]


@pytest.mark.slow
def test_a_segment_cut_at_any_length_keeps_exactly_its_whole_blocks(
    tmp_path: Path, no_fsync: None
) -> None:
    """From a file that is only a header to one that lacks only the last step."""
    data, ends, dids = whole_segment(tmp_path / "made")
    unfinalised = rca.encode_header(rca.Header(5, 0, 0)) + data[HEADER:]
    folder = tmp_path / "archive"
    folder.mkdir()
    for length in range(HEADER, len(data) + 1):
        path = folder / "segment_0001.rca"
        path.write_bytes(unfinalised[:length])
        kept = sum(end <= length for end in ends[1:])
        assert dids_in(folder) == dids[:kept], "a reader sees them before any recovery"

        writer = writer_of(folder)
        (recovered,) = writer.recovered
        cut = 0 if length == len(data) else length - ends[kept]
        assert (recovered.repos, recovered.cut, recovered.damage) == (kept, cut, ())
        writer.append([check(block) for block in blocks_of("next")])
        writer.close()
        assert dids_in(folder) == [*dids[:kept], "did:plc:next"]
        assert_sound(folder)
        for leftover in folder.iterdir():
            leftover.unlink()


names = st.sampled_from("abcdefghij").map(lambda name: f"did:plc:{name}")
contents = st.dictionaries(
    st.sampled_from(["a.b.c", "a.b.d", "z.z.z"]),
    st.just({"k": b"{}"}),
    max_size=3,
)
made_blocks = st.lists(st.builds(make_block, names, st.integers(0, 99), contents), max_size=6)
tails = st.one_of(
    st.just(b""),
    st.binary(max_size=200),
    st.integers(1, 300).map(bytes),  # Zeros: what some file systems show after a power cut.
    st.tuples(made_blocks, st.integers(1, 60)).map(lambda made: b"".join(made[0])[: -made[1]]),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(made_blocks, tails, st.integers(0, 400))
def test_whatever_the_tail_whole_blocks_are_kept_and_the_archive_goes_on(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[bytes], tail: bytes, limit: int
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    header = rca.encode_header(rca.Header(5, 0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        (folder / "segment_0001.rca").write_bytes(header + b"".join(blocks) + tail)
        before = dids_in(folder)
        assert before[: len(blocks)] == [rca.parse_block(block).did for block in blocks]
        writer = writer_of(folder, segment_bytes=limit)
        writer.append([check(block) for block in blocks_of("next")])
        writer.close()
        assert dids_in(folder) == [*before, "did:plc:next"]
        assert_sound(folder)


def unfinalised(folder: Path, blocks: list[bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "segment_0001.rca"
    path.write_bytes(rca.encode_header(rca.Header(5, 0, 0)) + b"".join(blocks))
    return path


@pytest.mark.parametrize(
    "flip", [0, 3, 4, 8, -1], ids=["size", "huge size", "DID length", "DID", "data"]
)
def test_damage_before_sound_blocks_costs_one_block_and_nothing_is_deleted(
    flip: int, tmp_path: Path, no_fsync: None
) -> None:
    """A flipped bit in the middle is no torn tail: cutting there would lose what was durable."""
    blocks = blocks_of(*"abcde")
    path = unfinalised(tmp_path, blocks)
    damaged = bytearray(path.read_bytes())
    start = HEADER + len(blocks[0])
    damaged[start + flip if flip >= 0 else start + len(blocks[1]) - 1] ^= 0x41
    path.write_bytes(damaged)
    writer = writer_of(tmp_path)
    (recovered,) = writer.recovered
    assert recovered.set_aside == tmp_path / "segment_0001.rca.damaged"
    assert recovered.set_aside.read_bytes() == damaged
    assert [gap.offset for gap in recovered.damage] == [start]
    writer.append([check(block) for block in blocks_of("next")])
    writer.close()
    assert dids_in(tmp_path) == [f"did:plc:{name}" for name in ("a", "c", "d", "e", "next")]
    assert [path.name for path in find_segments(tmp_path)] == ["segment_0002.rca"]
    assert_sound(tmp_path)


def test_a_block_whose_names_ended_in_zeros_is_torn(tmp_path: Path, no_fsync: None) -> None:
    """A repository without records has no data for its CRC to cover: a power cut that takes the
    end of it leaves zeros that look like a time, no collections and their CRC."""
    empty = make_block("did:plc:empty", collections={})
    for kept in range(8, len(empty) - 14):
        unfinalised(tmp_path, [*blocks_of("a"), empty[:kept] + bytes(len(empty) - kept)])
        assert dids_in(tmp_path) == ["did:plc:a"], f"{kept} bytes of the block had been written"


def test_what_a_killed_writer_left_is_durable_before_anybody_counts_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unfinalised(tmp_path, blocks_of("a"))
    synced, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))
    )
    writer = writer_of(tmp_path)
    assert str(path) in synced
    writer.close()


def test_a_block_hidden_inside_the_data_of_a_torn_one_is_not_taken_for_real(
    tmp_path: Path, no_fsync: None
) -> None:
    """What a repository contains was chosen by its owner."""
    forged = make_block("did:plc:victim", crawled_at_us=1 << 60)
    carrier = rca.encode_block(
        "did:plc:owner",
        "",
        "",
        1,
        [rca.PackedCollection("a.b.c", 1, b"x" * 50 + forged + b"y" * 50)],
    )
    path = unfinalised(tmp_path, [*blocks_of("a"), carrier[:-20]])
    assert dids_in(tmp_path) == ["did:plc:a"]
    damaged = bytearray(carrier)
    damaged[-1] ^= 1
    path = unfinalised(tmp_path, [*blocks_of("a"), bytes(damaged), *blocks_of("b")])
    assert dids_in(tmp_path) == ["did:plc:a", "did:plc:b"]
    assert path.exists()


def test_a_file_that_is_no_segment_is_left_alone(tmp_path: Path, no_fsync: None) -> None:
    strange = tmp_path / "segment_0004.rca"
    strange.write_bytes(b"hello")
    write(tmp_path, blocks_of("a"))
    assert strange.read_bytes() == b"hello"
    assert (tmp_path / "segment_0005.rca").exists()


def test_several_unfinalised_segments_are_all_finished(tmp_path: Path, no_fsync: None) -> None:
    for number, name in enumerate("abc", start=1):
        unfinalised(tmp_path, blocks_of(name)).rename(tmp_path / f"segment_000{number}.rc")
    for path in tmp_path.glob("*.rc"):
        path.rename(path.with_suffix(".rca"))
    write(tmp_path, blocks_of("next"))
    assert dids_in(tmp_path) == ["did:plc:a", "did:plc:b", "did:plc:c", "did:plc:next"]
    assert len(find_segments(tmp_path)) == 3
    assert_sound(tmp_path)


class Crash(BaseException):
    """The process ends here, as far as the files are concerned."""


class DyingDisk:
    """Lets so many calls through; the next one is done half and everything ends."""

    CALLS = ("write", "fsync", "ftruncate", "truncate", "replace", "rename", "unlink")

    def __init__(self, patch: pytest.MonkeyPatch, calls: int) -> None:
        self.left = calls
        self.synced: dict[int, bytes] = {}  # By inode, as of its last fsync.
        for name in self.CALLS:
            patch.setattr(os, name, self._dying(name, getattr(os, name)))

    def _dying(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                if name == "write" and self.left == -1:
                    real(args[0], args[1][: len(args[1]) // 2])
                raise Crash
            if name != "fsync":
                return real(*args, **more)
            path = Path(f"/proc/self/fd/{args[0]}")
            if path.is_file():
                self.synced[path.stat().st_ino] = path.read_bytes()
            return None

        return call

    def cut_power(self, folder: Path, how: str) -> None:
        """What was not synced is gone, or zeros, except perhaps the header."""
        for path in folder.glob("*.rca"):
            now = path.read_bytes()
            kept = self.synced.get(path.stat().st_ino, b"")
            if how != "shorter":
                kept += bytes(max(0, len(now) - len(kept)))
            if how == "zeros behind a new header":
                kept = now[:HEADER] + kept[HEADER:]
            path.write_bytes(kept)


def scenario(folder: Path, acknowledged: list[str]) -> None:
    writer = writer_of(folder, segment_bytes=700)
    for batch in (["a", "b"], ["c"], ["d", "e", "f"], ["g"]):
        writer.append([check(block) for block in blocks_of(*batch)])
        acknowledged += [f"did:plc:{name}" for name in batch]
    writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("power", ["on", "shorter", "zeros", "zeros behind a new header"])
def test_a_crash_at_any_step_loses_nothing_that_was_acknowledged(
    power: str, tmp_path: Path
) -> None:
    for steps in range(1000):
        folder, acknowledged = tmp_path / str(steps), []
        with pytest.MonkeyPatch.context() as patch:
            disk = DyingDisk(patch, steps)
            try:
                scenario(folder, acknowledged)
                break
            except Crash:
                pass
        if not folder.exists():
            continue
        if power != "on":
            disk.cut_power(folder, power)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda fd: None)
            (folder / ".lock").unlink(missing_ok=True)  # Its holder lives on in this process.
            assert set(dids_in(folder)) >= set(acknowledged), f"before recovery, at step {steps}"
            write(folder, blocks_of("next"))
            kept = dids_in(folder)
            assert kept[: len(acknowledged)] == acknowledged, f"at step {steps}"
            assert len(kept) == len(set(kept))
            assert_sound(folder)
    assert acknowledged and steps > 40, "the whole scenario was tried"


@pytest.mark.parametrize("room", [0, 10, 300])
def test_a_full_disk_is_one_clear_error_and_the_batch_is_not_there(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_fsync: None
) -> None:
    async def run() -> None:
        sink = await SegmentSink.open(tmp_path, lambda: NOW)
        await sink.write(tasks(blocks_of("kept")))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", FullDisk(room))
            with pytest.raises(SinkError, match="No space left") as caught:
                await sink.write(tasks(blocks_of(*"abcdefgh")))
            assert "free some space" in caught.value.hint
        assert dids_in(tmp_path) == ["did:plc:kept"]
        await sink.write(tasks(blocks_of("later")))
        assert dids_in(tmp_path) == ["did:plc:kept", "did:plc:later"]
        await sink.close()

    asyncio.run(run())
    assert len(find_segments(tmp_path)) == 1
    assert_sound(tmp_path)


@pytest.mark.parametrize("room", [0, 5, 60])
def test_a_disk_too_full_to_finalise_leaves_a_segment_that_the_next_run_finishes(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_fsync: None
) -> None:
    async def run() -> None:
        sink = await SegmentSink.open(tmp_path, lambda: NOW)
        await sink.write(tasks(blocks_of("a", "b", "c")))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", FullDisk(room))
            with pytest.raises(SinkError, match="finalising"):
                await sink.close()
        assert dids_in(tmp_path) == ["did:plc:a", "did:plc:b", "did:plc:c"]
        sink = await SegmentSink.open(tmp_path, lambda: NOW)  # The lock was let go of.
        await sink.close()

    asyncio.run(run())
    assert_sound(tmp_path)


def test_an_fsync_that_fails_undoes_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_of(tmp_path)
    writer.append([check(block) for block in blocks_of("a")])

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(SinkError, match="Input/output error"):
            writer.append([check(block) for block in blocks_of("b")])
    assert dids_in(tmp_path) == ["did:plc:a"]
    writer.append([check(block) for block in blocks_of("b")])
    writer.close()
    assert dids_in(tmp_path) == ["did:plc:a", "did:plc:b"]
    assert_sound(tmp_path)


def test_a_header_points_to_an_index_only_once_that_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_of(tmp_path)
    writer.append([check(block) for block in blocks_of("a")])
    events: list[str] = []
    fsync, real_write = os.fsync, os.write

    def noted_write(fd: int, data: Any) -> int:
        place = os.lseek(fd, 0, os.SEEK_CUR)
        events.append("header" if place == 0 else "tail")
        return real_write(fd, data)

    monkeypatch.setattr(os, "write", noted_write)
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("fsync"), fsync(fd)))
    writer.close()
    assert events[-3:] == ["fsync", "header", "fsync"]
    assert set(events[:-3]) == {"tail"}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), max_size=60))
def test_the_log_of_entries_is_the_index(dids: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trawlnet.archive.entries._RUN", 7)
        log = EntryLog()
        entries = [
            rcaindex.IndexEntry(f"did:plc:{did}", 64 + n, n, n) for n, did in enumerate(dids)
        ]
        for did, offset, size, crc in entries:
            log.add(BlockEntry(did.encode(), offset, size, crc))
        section = b"".join(log.section())
        assert section == rcaindex.encode_index(entries)
        assert len(section) == 4 + log.size
        assert len(log) == len(entries)


def test_a_batch_over_several_segments_is_whole(tmp_path: Path, no_fsync: None) -> None:
    async def run() -> None:
        sink = await SegmentSink.open(tmp_path, lambda: NOW, 1)
        await sink.write(tasks(blocks_of(*"abc")))
        assert sink.segments_finalised == 3
        await sink.close()
        assert sink.segments_finalised == 3

    asyncio.run(run())
    assert dids_in(tmp_path) == ["did:plc:a", "did:plc:b", "did:plc:c"]
    assert_sound(tmp_path)


@pytest.mark.slow
def test_a_segment_of_version_1_is_finished_before_one_of_version_2_begins(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    writer.append([check(make_block("did:plc:a"))])
    writer._leave()  # Killed.
    writer._lock.release()
    newer = provable_block(signed_car(some_records(1)))
    again = writer_of(tmp_path)
    again.append([check(newer), check(make_block("did:plc:b")), check(newer)])
    again.close()
    segments = [open_segment(path) for path in find_segments(tmp_path)]
    assert [segment.header.version for segment in segments] == [1, 2, 1, 2]
    assert all(segment.finalised for segment in segments)
    assert all(verify_segment(segment.path).sound for segment in segments)
