"""Compaction: what no longer counts is dropped, and a crash at any step loses no latest block."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.repos.living import LivingArchive, LivingRepo, pack, texts
from tests.support.repos.made_segments import NOW, dids_in, make_block, write, writer_of
from trawlnet.archive.census import take_census
from trawlnet.archive.compact import Compaction, compact, plan_compaction
from trawlnet.archive.lookup import FoundRecord, look_up, records
from trawlnet.archive.proving.proofs import NOT_SIGNED
from trawlnet.archive.reader import NoArchive, find_segments
from trawlnet.archive.segment_file import check
from trawlnet.archive.tally import open_all, tally
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.archive.verify import Proven, prove_folded, verify_segment
from trawlnet.storage.errors import SinkBusy


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def made(folder: Path) -> None:
    """Three segments: a and b twice, c gone, d gone and back, the third with nothing living."""
    write(folder, [make_block(f"did:plc:{name}", 10) for name in "abcd"])
    write(folder, [make_block(f"did:plc:{name}", 30) for name in "abd"])
    write(folder, [make_block("did:plc:a", 20), make_block("did:plc:c", 12)])
    stones = [("c", 15), ("c", 5), ("d", 20)]
    append_tombstones(folder, [Tombstone(f"did:plc:{name}", "gone", at) for name, at in stones])


def run(folder: Path) -> Compaction:
    return compact(folder, lambda: NOW)


def assert_right(folder: Path) -> None:
    crawled = {}
    for name in "abcd":
        found = look_up(folder, f"did:plc:{name}")
        if found.block is not None and found.tombstone is None:
            crawled[name] = found.block.head.crawled_at_us
    assert crawled == {"a": 30, "b": 30, "d": 30}
    assert all(verify_segment(path).sound for path in find_segments(folder))


def test_what_is_superseded_or_gone_is_dropped(tmp_path: Path) -> None:
    made(tmp_path)
    before = sum(path.stat().st_size for path in find_segments(tmp_path))
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    plan = plan_compaction(tmp_path)
    assert files == {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    done = run(tmp_path)
    assert (done.segments, done.rewritten, done.removed) == (3, 0, 2)
    assert (done.superseded, done.tombstoned, done.damage) == (3, 3, [])
    assert done.freed == before - sum(path.stat().st_size for path in find_segments(tmp_path))
    plan.freed = done.freed  # A plan does not count the entries of the index.
    assert plan == done
    assert dids_in(tmp_path) == ["did:plc:a", "did:plc:b", "did:plc:d"]
    assert_right(tmp_path)
    assert run(tmp_path) == Compaction(segments=1)


def test_a_segment_keeps_its_name_its_birthday_and_its_living_blocks(tmp_path: Path) -> None:
    blocks = [make_block(f"did:plc:{name}", 10) for name in "abc"]
    write(tmp_path, blocks)
    write(tmp_path, [make_block("did:plc:b", 11)])
    header = (tmp_path / "segment_0001.rca").read_bytes()[:20]
    assert run(tmp_path).rewritten == 1
    after = (tmp_path / "segment_0001.rca").read_bytes()
    assert after[:20] == header
    assert blocks[0] + blocks[2] in after
    assert dids_in(tmp_path) == ["did:plc:a", "did:plc:c", "did:plc:b"]


def test_what_a_killed_crawl_left_is_recovered_first(tmp_path: Path) -> None:
    write(tmp_path, [make_block("did:plc:a", 1)])
    writer = writer_of(tmp_path)
    writer.append([check(make_block("did:plc:a", 2))])
    with pytest.raises(SinkBusy):
        run(tmp_path)
    writer._leave()
    writer._lock.release()
    assert run(tmp_path).removed == 1
    assert dids_in(tmp_path) == ["did:plc:a"]
    assert_sound_and_finalised(tmp_path)


def assert_sound_and_finalised(folder: Path) -> None:
    for path in find_segments(folder):
        verdict = verify_segment(path)
        assert verdict.sound and verdict.finalised


def test_a_damaged_block_does_not_drive_out_the_older_one(tmp_path: Path) -> None:
    write(tmp_path, [make_block("did:plc:a", 1), make_block("did:plc:b", 1)])
    write(tmp_path, [make_block("did:plc:a", 2), make_block("did:plc:b", 2)])
    newer = tmp_path / "segment_0002.rca"
    data = bytearray(newer.read_bytes())
    data[64 + len(make_block("did:plc:a", 2)) - 1] ^= 1
    newer.write_bytes(data)
    done = run(tmp_path)
    assert [damage.path for damage in done.damage] == [newer]
    assert newer.read_bytes() == data
    assert dids_in(tmp_path) == ["did:plc:a", "did:plc:b"]
    assert tally(tmp_path / "segment_0001.rca").repos == 1


def test_a_damaged_segment_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, [make_block(f"did:plc:{name}", 1) for name in "abc"])
    write(tmp_path, [make_block("did:plc:a", 2)])
    older = tmp_path / "segment_0001.rca"
    data = bytearray(older.read_bytes())
    data[64 + len(make_block("did:plc:a", 1)) * 2 - 1] ^= 1
    older.write_bytes(data)
    done = run(tmp_path)
    assert done.damage and done.rewritten == done.superseded == 0
    assert older.read_bytes() == data
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoArchive):
        run(tmp_path / "x")
    assert not (tmp_path / "x").exists()


class Crash(BaseException):
    pass


def crashes(tmp_path: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Archives whose compaction died: at its first step, its second, and so on to its end."""
    calls = ("write", "replace", "rename", "unlink", "ftruncate", "truncate")
    for steps in range(500):
        folder = tmp_path / str(steps)
        make(folder)
        left = steps

        def dying(name: str) -> object:
            real = getattr(os, name)

            def call(*args: object, **more: object) -> object:
                nonlocal left
                left -= 1
                if left < 0:
                    raise Crash
                return real(*args, **more)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in calls:
                patch.setattr(os, name, dying(name))
            try:
                run(folder)
                break
            except Crash:
                pass
        yield folder
        (folder / ".lock").unlink(missing_ok=True)
    assert steps > 8


def test_a_crash_at_any_step_loses_no_latest_block(tmp_path: Path) -> None:
    for folder in crashes(tmp_path, made):
        assert_right(folder)
        (folder / ".lock").unlink(missing_ok=True)
        run(folder)
        assert dids_in(folder) == ["did:plc:a", "did:plc:b", "did:plc:d"]
        assert_right(folder)
        assert not list(folder.glob(".*.tmp"))


@pytest.mark.slow
def test_a_crash_at_any_step_loses_no_change(tmp_path: Path) -> None:
    """Deltas before, behind and in the segment of their full block, some of them twice."""
    past = LivingArchive(tmp_path / "made", 3, 4)
    for path in past.folder.glob(".*"):
        path.unlink()
    truth = {life.did: texts(life.truth) for life in past.lives}
    for folder in crashes(tmp_path, partial(shutil.copytree, past.folder)):
        assert_proven(folder, truth)
        (folder / ".lock").unlink(missing_ok=True)
        assert not run(folder).damage
        assert_proven(folder, truth)
        assert tally(folder).deltas == 0
        assert not list(folder.glob(".*.tmp"))
        shutil.rmtree(folder)


def assert_proven(folder: Path, truth: dict[str, dict[str, bytes]]) -> None:
    census = take_census(open_all(find_segments(folder), []), {})
    assert not census.broken and not census.damage
    proven: list[Proven] = []
    for path in find_segments(folder):
        assert verify_segment(path, tell=proven.append, census=census).sound
    assert not list(prove_folded(census, proven.append))
    assert {one.verdict.did: one.verdict.reason for one in proven} == dict.fromkeys(truth, "")
    for did, expected in truth.items():
        found = look_up(folder, did)
        assert found.segment and found.block and not found.damage
        rows = records(found.segment, found.block, lambda name: True)
        kept = [one for one in rows if isinstance(one, FoundRecord)]
        assert {f"{one.collection}/{one.rkey}": one.json for one in kept} == expected


def test_what_does_not_give_what_was_signed_is_not_folded(tmp_path: Path) -> None:
    """Whoever wrote such a delta: as long as it is there, it can be looked into."""
    life = LivingRepo(1)
    delta = replace(life.change(), signature=bytes(64))
    write(tmp_path, [life.full, pack(delta)])
    files = [path.read_bytes() for path in find_segments(tmp_path)]
    done = run(tmp_path)
    assert (done.folded, done.rewritten) == (0, 0)
    (damage,) = done.damage
    assert life.did in damage.what and NOT_SIGNED in damage.what
    assert [path.read_bytes() for path in find_segments(tmp_path)] == files
