"""Deltas go to the segments first, and then into the notes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.repos.living import LivingRepo, pack
from tests.support.repos.made_repos import DID
from tests.support.repos.made_segments import NOW, write
from trawlnet.archive.compact import compact
from trawlnet.archive.past import StateFinder
from trawlnet.archive.sink import SegmentSink
from trawlnet.archive.tally import tally
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue, count_archived, left_out
from trawlnet.crawlers.repos.sink import ArchiveSink
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.repos import RepoMeter
from trawlnet.sim.virtual import SimClock
from trawlnet.storage.errors import SinkError
from trawlnet.stores.lmdb.notes import open_notes


class Shelf:
    """A sink over a workspace, and all that it is made of."""

    def __init__(self, workspace: Path, segments: SegmentSink) -> None:
        self.segments = segments
        self.notes = open_notes(workspace / "state" / "repos" / "notes")
        self.archived = ArchiveCatalogue(self.notes, workspace / "archive", SimClock())
        self.metrics = CrawlMetrics("repos", SimClock())
        self.sink = ArchiveSink(
            workspace / "archive", segments, self.archived, RepoMeter(self.metrics)
        )

    @classmethod
    async def open(cls, workspace: Path) -> Shelf:
        return cls(workspace, await SegmentSink.open(workspace / "archive", lambda: NOW, 1 << 30))

    async def close(self) -> None:
        self.archived.close()
        self.notes.close()
        await self.segments.close()


def test_a_delta_is_durable_noted_and_counted(tmp_path: Path) -> None:
    life = LivingRepo(1)

    async def run() -> None:
        shelf = await Shelf.open(tmp_path)
        written: list[tuple[int, int]] = []

        async def tell(new: int, size: int) -> None:
            written.append((new, size))

        shelf.sink.listeners.append(tell)
        await shelf.segments.append([life.full])
        await shelf.archived.note({DID: life.rev}, {DID: {"bad_cid": 3}})
        before = life.rev
        block = pack(life.change())
        await shelf.sink.append([block], {DID: life.rev})
        assert shelf.archived.rev(DID) == life.rev > before
        past = StateFinder(tmp_path / "archive").at(DID, life.rev)
        assert past and past.root == life.root()
        assert written == [(0, len(block))]
        yields = shelf.metrics.yields
        assert (yields["repos"], yields["deltas"], yields["bytes"]) == (0, 1, len(block))
        await shelf.sink.append([], {})
        assert len(written) == 1
        await shelf.close()

    asyncio.run(run())
    # What was left out of the full block still is.
    assert left_out(tmp_path) == {"bad_cid": 3}
    assert count_archived(tmp_path / "state" / "repos" / "notes", tmp_path / "archive") == 1
    assert tally(tmp_path / "archive").repos == 1


def test_what_was_written_and_not_noted_is_found_again(tmp_path: Path) -> None:
    life = LivingRepo(2)

    async def run() -> None:
        shelf = await Shelf.open(tmp_path)
        await shelf.segments.append([life.full, pack(life.change())])
        shelf.notes.close()  # Killed: nothing is written down.
        await shelf.segments.close()
        shelf = await Shelf.open(tmp_path)
        assert shelf.archived.rev(DID) == life.rev
        await shelf.close()

    asyncio.run(run())


def test_nothing_is_written_between_a_block_and_its_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl and a stream write side by side. The notes say how far they have seen the segments:
    a block of somebody else must not be there that is in no note yet."""
    lives = [LivingRepo(n, 3, f"did:plc:{n:024}") for n in range(5)]
    order: list[str] = []

    async def run() -> None:
        shelf = await Shelf.open(tmp_path)
        write, note = shelf.segments.append, shelf.archived.note

        async def watched_write(blocks: Sequence[bytes]) -> None:
            order.append("written")
            await write(blocks)

        async def watched_note(changes: Mapping[str, str]) -> None:
            await note(changes)
            order.append("noted")

        monkeypatch.setattr(shelf.segments, "append", watched_write)
        monkeypatch.setattr(shelf.archived, "note", watched_note)
        await asyncio.gather(
            *(shelf.sink.append([life.full], {life.did: life.rev}) for life in lives)
        )
        await shelf.close()

    asyncio.run(run())
    assert order == ["written", "noted"] * len(lives)


def test_what_was_being_written_when_the_crawl_was_stopped_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread writes on after a cancel. Notes that know of the segment's end and not of the
    block would have the repository fetched a second time."""
    life = LivingRepo(4)

    async def run() -> None:
        shelf = await Shelf.open(tmp_path)
        begun, go_on, written = threading.Event(), threading.Event(), threading.Event()

        def slow_write(blocks: Sequence[bytes]) -> None:
            begun.set()
            go_on.wait(30)
            SegmentSink._write(shelf.segments, blocks)
            written.set()

        monkeypatch.setattr(shelf.segments, "_write", slow_write)
        writing = asyncio.create_task(shelf.sink.append([life.full], {DID: life.rev}))
        await asyncio.to_thread(begun.wait, 30)
        writing.cancel()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await writing
        await asyncio.to_thread(written.wait, 30)
        await shelf.close()
        shelf = await Shelf.open(tmp_path)
        assert shelf.archived.rev(DID) == life.rev
        await shelf.close()

    asyncio.run(run())


def test_what_cannot_be_written_is_not_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = LivingRepo(3)

    async def run() -> None:
        shelf = await Shelf.open(tmp_path)
        await shelf.segments.append([life.full])
        await shelf.archived.note({DID: life.rev})
        before, block = life.rev, pack(life.change())

        def full_disk(fd: int, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("trawlnet.archive.segment_file.write_all", full_disk)
            with pytest.raises(SinkError):
                await shelf.sink.append([block], {DID: life.rev})
        assert shelf.archived.rev(DID) == before
        assert "deltas" not in shelf.metrics.yields
        await shelf.sink.append([block], {DID: life.rev})
        assert shelf.archived.rev(DID) == life.rev
        await shelf.close()

    asyncio.run(run())


def test_compaction_between_two_crawls_takes_no_rev_back(tmp_path: Path) -> None:
    lives = [LivingRepo(n, 20, f"did:plc:{n:024}") for n in range(6)]
    archive = tmp_path / "archive"

    async def append(life: LivingRepo, *blocks: bytes) -> None:
        shelf = await Shelf.open(tmp_path)
        await shelf.sink.append(blocks, {life.did: life.rev})
        await shelf.close()

    async def revs() -> list[str | None]:
        shelf = await Shelf.open(tmp_path)
        found = [shelf.archived.rev(life.did) for life in lives]
        await shelf.close()
        return found

    for life in lives:
        asyncio.run(append(life, life.full, *(pack(life.change()) for _ in range(4))))
    # A later segment has a newer block of one, and an earlier its past.
    lives[0].change()
    asyncio.run(append(lives[0], lives[0].signed_block()))
    for _ in range(3):
        compact(archive, lambda: NOW)
        assert asyncio.run(revs()) == [life.rev for life in lives]
        assert count_archived(tmp_path / "state" / "repos" / "notes", archive) == len(lives)
        write(archive, [pack(lives[3].change())])
        assert asyncio.run(revs()) == [life.rev for life in lives]


def test_a_segment_that_grew_by_folding_is_not_read_from_amid_a_block(tmp_path: Path) -> None:
    small, other = LivingRepo(1, 1), LivingRepo(2, 2, "did:plc:" + "b" * 24)
    archive = tmp_path / "archive"

    async def run(*blocks: bytes) -> str | None:
        shelf = await Shelf.open(tmp_path)
        found = shelf.archived.rev(DID)
        if blocks:
            await shelf.sink.append(blocks, {DID: small.rev, other.did: other.rev})
        await shelf.close()
        return found

    asyncio.run(run(small.full, other.full))
    asyncio.run(run(*(pack(small.change()) for _ in range(30))))
    before = (archive / "segment_0001.rca").stat().st_size
    assert compact(archive, lambda: NOW).folded == 1
    assert (archive / "segment_0001.rca").stat().st_size > before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trawlnet.archive.blocks._search", _never)
        assert asyncio.run(run()) == small.rev


def test_what_compaction_did_not_fold_keeps_its_rev(tmp_path: Path) -> None:
    """Its full block was copied into a segment that is read anew, its delta is in another one."""
    stays, folded = LivingRepo(1, 3), LivingRepo(2, 3, "did:plc:" + "b" * 24)
    archive = tmp_path / "archive"

    async def run(*blocks: bytes) -> str | None:
        shelf = await Shelf.open(tmp_path)
        found = shelf.archived.rev(DID)
        await shelf.sink.append(blocks, {DID: stays.rev, folded.did: folded.rev})
        await shelf.close()
        return found

    asyncio.run(run(stays.full, folded.full))
    odd = pack(replace(stays.change(), signature=bytes(64)))
    asyncio.run(run(odd))
    asyncio.run(run(*(pack(folded.change()) for _ in range(9))))
    done = compact(archive, lambda: NOW)
    assert (done.folded, len(done.damage)) == (1, 1)
    assert asyncio.run(run()) == stays.rev


def _never(*of: object) -> int:
    raise AssertionError("nothing is searched for in a sound segment")
