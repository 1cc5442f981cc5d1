"""What a repository was at a revision, found in an archive that is being written to."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.repos.living import LivingRepo, cids, pack
from tests.support.repos.made_repos import DID
from tests.support.repos.made_segments import make_block, write, writer_of
from trawlnet.archive.changes import finder
from trawlnet.archive.difference import difference
from trawlnet.archive.format.content import ExtractOptions
from trawlnet.archive.format.folding import parse_state
from trawlnet.archive.past import StateFinder, UnreadableState
from trawlnet.archive.segment_file import check
from trawlnet.archive.writer import SegmentWriter

OTHER = "did:plc:" + "z" * 24


def append(writer: SegmentWriter, *blocks: bytes) -> None:
    writer.append([check(block) for block in blocks])


def test_each_revision_is_found_while_the_archive_grows(tmp_path: Path) -> None:
    """Over three segments, of which the last is never finished here."""
    life, noise = LivingRepo(1), [make_block(f"did:plc:{n:024}") for n in range(300)]
    found = StateFinder(tmp_path)
    assert found.at(DID, life.rev) is None
    writer = writer_of(tmp_path)
    roots = {}
    for step in range(9):
        block = pack(life.change()) if step else life.full
        roots[life.rev] = life.root()
        append(writer, *noise, block)
        past = found.at(DID, life.rev)
        assert past
        assert (past.state.rev, past.root) == (life.rev, life.root())
        if step in (2, 5):
            writer.finalise()
    for finder_of_all in (found, StateFinder(tmp_path)):
        for rev, root in roots.items():
            past = finder_of_all.at(DID, rev)
            assert past
            assert (cids(past.state), past.root) == (life.cids(rev), root)
        assert finder_of_all.at(DID, "2222222222222") is None
        assert finder_of_all.at(OTHER, life.rev) is None
    writer.close()


def test_where_it_lived_at_each_revision_is_found_without_reading_it(tmp_path: Path) -> None:
    life = LivingRepo(3)
    first = life.rev
    moved = replace(life.change(), pds="https://new.example")
    write(tmp_path, [life.full, pack(moved)])
    found = StateFinder(tmp_path)
    assert found.home_at(DID, life.rev) == "https://new.example"
    assert found.home_at(DID, first) == parse_state(life.full).pds != ""
    assert found.home_at(DID, "2222222222222") == found.home_at(OTHER, life.rev) == ""


def test_between_two_revisions_the_older_one_is_given(tmp_path: Path) -> None:
    life = LivingRepo(2)
    first = life.rev
    life.now_us += 1_000_000
    write(tmp_path, [life.full, pack(life.change())])
    past = StateFinder(tmp_path).at(DID, first[:-1] + "z")
    assert past
    assert past.state.rev == first


def test_a_later_full_block_hides_no_older_revision(tmp_path: Path) -> None:
    life = LivingRepo(3)
    blocks = [life.full, pack(life.change())]
    before = life.rev
    life.change()
    write(tmp_path, [*blocks, life.signed_block()])
    found = StateFinder(tmp_path)
    for rev in (before, life.rev):
        past = found.at(DID, rev)
        assert past
        assert cids(past.state) == life.cids(rev)


def test_a_broken_chain_is_incomplete_and_its_root_is_that_of_what_is_there(tmp_path: Path) -> None:
    life = LivingRepo(4)
    first, root = life.rev, life.root()
    life.change()
    write(tmp_path, [life.full, pack(life.change())])
    past = StateFinder(tmp_path).at(DID, life.rev)
    assert past
    assert (past.state.rev, past.root) == (first, root)
    assert life.rev in past.state.incomplete


def damage(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes((byte ^ 1,)))


def test_a_damaged_delta_leaves_what_was_before_it(tmp_path: Path) -> None:
    life = LivingRepo(5)
    first, delta = life.rev, pack(life.change())
    write(tmp_path, [life.full, delta])
    damage(tmp_path / "segment_0001.rca", 64 + len(life.full) + len(delta) - 5)
    found = StateFinder(tmp_path)
    past = found.at(DID, life.rev)
    assert past
    assert past.state.rev == first
    assert "CRC" in past.state.incomplete
    unharmed = found.at(DID, first)
    assert unharmed
    assert not unharmed.state.incomplete


@pytest.mark.parametrize("kind", ["damaged", "orphan", "version 1"])
def test_what_makes_no_state_is_said(tmp_path: Path, kind: str) -> None:
    life = LivingRepo(6)
    if kind == "damaged":
        write(tmp_path, [life.full])
        damage(tmp_path / "segment_0001.rca", 64 + len(life.full) - 5)
    elif kind == "orphan":
        write(tmp_path, [pack(life.change())])
    else:
        write(tmp_path, [make_block(DID)])
    with pytest.raises(UnreadableState):
        StateFinder(tmp_path).at(DID, "zzzzzzzzzzzzz")


def test_a_filtered_repository_has_a_root_until_something_unseen_changes(tmp_path: Path) -> None:
    life = LivingRepo(7, 60)
    full = life.signed_block(ExtractOptions(proof=True, collections=("x.y.z",)))
    first, root = life.rev, life.root()
    write(tmp_path, [full, pack(life.change())])
    found = StateFinder(tmp_path)
    past, later = found.at(DID, first), found.at(DID, life.rev)
    assert past and later
    assert past.root == root
    assert later.root is None


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_segment_that_was_cut_and_written_to_again_is_read_anew(
    tmp_path: Path, is_seen: bool
) -> None:
    """As after a disk that was full: what was seen there is not what is there now."""
    life = LivingRepo(8)
    first = life.rev
    writer = writer_of(tmp_path)
    append(writer, life.full)
    path = tmp_path / "segment_0001.rca"
    durable = path.stat().st_size
    found = StateFinder(tmp_path)
    with path.open("ab") as file:
        file.write(make_block(DID, 7) + make_block(OTHER, 7))
    assert found.at(OTHER, first) is None
    os.truncate(path, durable)
    if is_seen:
        assert found.at(OTHER, first) is None
    append(writer, pack(life.change()), *[make_block(f"did:plc:{n:024}") for n in range(5)])
    past = found.at(DID, life.rev)
    assert past
    assert (past.state.rev, past.root) == (life.rev, life.root())
    writer.close()


def test_a_block_that_is_half_written_is_passed_over_until_it_is_whole(tmp_path: Path) -> None:
    life = LivingRepo(9)
    first = life.rev
    append(writer_of(tmp_path), life.full)
    found, delta = StateFinder(tmp_path), pack(life.change())
    for cut in (3, 20, len(delta) - 1):
        path = tmp_path / "segment_0001.rca"
        with path.open("ab") as file:
            file.write(delta[:cut])
        past = found.at(DID, life.rev)
        assert past and past.state.rev == first
        os.truncate(path, path.stat().st_size - cut)
    with path.open("ab") as file:
        file.write(delta)
    past = found.at(DID, life.rev)
    assert past and past.state.rev == life.rev


def test_many_blocks_in_one_segment_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "_RUN", 64)
    life, dids = LivingRepo(10, 3), [f"did:plc:{n:024}" for n in range(500)]
    blocks = [life.full, *(pack(life.change()) for _ in range(300))]
    writer = writer_of(tmp_path)
    append(writer, *blocks, *map(make_block, dids))
    found = StateFinder(tmp_path)
    for is_finished in (False, True):
        past = found.at(DID, life.rev)
        assert past and past.root == life.root()
        looked_up = finder.BlockFinder(tmp_path)
        for did in dids:
            assert list(looked_up.newest_first(did)) == [make_block(did)]
        assert len(list(looked_up.newest_first(DID))) == len(blocks)
        assert list(looked_up.newest_first(OTHER)) == []
        if not is_finished:
            writer.close()


def test_a_segment_whose_index_is_damaged_is_scanned(tmp_path: Path) -> None:
    life = LivingRepo(11)
    write(tmp_path, [life.full, make_block(OTHER)])
    path = tmp_path / "segment_0001.rca"
    damage(path, path.stat().st_size - 40)
    past = StateFinder(tmp_path).at(DID, life.rev)
    assert past and past.root == life.root()


def test_the_difference_of_two_states_is_what_turns_one_into_the_other() -> None:
    for seed in range(20):
        life = LivingRepo(seed)
        before = parse_state(life.full)
        for _ in range(3):
            life.change()
        after = parse_state(life.signed_block())
        kept = {path: one.cid for path, one in before.records.items()}
        found = difference(kept, after)
        for path in found.deletes:
            del kept[path.encode()]
        for one in found.creates:
            assert kept.setdefault(one.path.encode(), one.cid) is one.cid
            assert f"{one.collection}/{one.rkey}" == one.path
        for one in found.updates:
            assert kept[one.path.encode()] != one.cid
            kept[one.path.encode()] = one.cid
        assert kept == {path: one.cid for path, one in after.records.items()}
        texts = {one.path.encode(): one.json for one in (*found.creates, *found.updates)}
        assert all(after.records[path].json == json for path, json in texts.items())
        everything = difference({}, after)
        assert [one.path.encode() for one in everything.creates] == list(after.records)
        assert not everything.updates and not everything.deletes
