"""Deltas fold to what the repository became, in whatever order they are met."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.repos.living import LivingRepo, cids, pack
from tests.support.repos.made_repos import DID
from tests.support.repos.made_segments import REV, make_block, write
from trawlnet.archive.census import Census, load_tombstones, take_census
from trawlnet.archive.changes.lineage import ORPHAN
from trawlnet.archive.format import rca
from trawlnet.archive.format.content import ExtractOptions
from trawlnet.archive.format.folding import fold, parse_state
from trawlnet.archive.lookup import FoundRecord, look_up, records
from trawlnet.archive.proving.proofs import PRUNED
from trawlnet.archive.reader import find_segments
from trawlnet.archive.tally import inspect, open_all, tally
from trawlnet.archive.verify import Proven, prove_folded, verify_segment
from trawlnet.atproto.tid import tid


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 6))
def test_deltas_fold_to_the_truth_in_any_order_and_twice(seed: int, steps: int) -> None:
    life = LivingRepo(seed)
    deltas = [parse_state(pack(life.change())) for _ in range(steps)]
    life.rng.shuffle(deltas)
    deltas += deltas[: steps // 2]
    state = fold(parse_state(life.full), deltas)
    assert cids(state) == life.cids()
    assert (state.rev, state.incomplete) == (life.rev, "")
    # And it is proven, from the block that it would be.
    assert parse_state(pack(state)) == state
    assert fold(state, deltas) == state


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(2, 6), st.data())
def test_a_missing_link_leaves_what_was_before_it(
    seed: int, steps: int, data: st.DataObject
) -> None:
    life = LivingRepo(seed)
    states = [fold(parse_state(life.full), [])]
    deltas = []
    for _ in range(steps):
        deltas.append(life.change())
        states.append(fold(states[-1], [deltas[-1]]))
    lost = data.draw(st.integers(0, steps - 2))
    state = fold(states[0], [*deltas[:lost], *deltas[lost + 1 :]])
    assert cids(state) == cids(states[lost])
    assert state.rev == states[lost].rev
    assert deltas[lost + 1].rev in state.incomplete


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_delta_reads_back(seed: int) -> None:
    delta = LivingRepo(seed).change()
    assert parse_state(pack(delta)) == delta


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 32), st.data())
def test_a_damaged_delta_is_damage(seed: int, data: st.DataObject) -> None:
    bad = bytearray(pack(LivingRepo(seed).change()))
    bad[data.draw(st.integers(0, len(bad) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        parse_state(bytes(bad))
    except rca.RcaError:
        return
    raise AssertionError("a flipped byte was believed")


# Readers of an archive that has some.


def archive(folder: Path, life: LivingRepo, steps: int) -> None:
    """The full block, then deltas over several segments, the last of them twice."""
    write(folder, [life.full])
    blocks = [pack(life.change()) for _ in range(steps)]
    for block in (*blocks, blocks[-1]):
        write(folder, [block])


def test_readers_see_the_repository_as_it_is_now(tmp_path: Path) -> None:
    for seed in range(4):
        folder, life = tmp_path / str(seed), LivingRepo(seed)
        archive(folder, life, 5)
        found = look_up(folder, DID)
        assert found.block and found.segment
        assert not found.damage
        told = list(records(found.segment, found.block, lambda name: True))
        assert all(isinstance(one, FoundRecord) for one in told)
        counts = tally(folder)
        assert (counts.repos, counts.records, counts.damage) == (1, len(told), [])
        assert inspect(find_segments(folder)[1])[1].deltas == 1
        proven: list[Proven] = []
        census = take_census(open_all(find_segments(folder), []), {})
        for path in find_segments(folder):
            assert verify_segment(path, tell=proven.append, census=census).sound
        assert not proven
        assert not list(prove_folded(census, proven.append))
        (verdict,) = (one.verdict for one in proven)
        assert verdict.proven, verdict.reason
        assert verdict.rev == life.rev


def test_a_later_full_block_replaces_the_deltas_before_it(tmp_path: Path) -> None:
    life = LivingRepo(1)
    archive(tmp_path, life, 3)
    write(tmp_path, [life.signed_block()])
    census = take_census(open_all(find_segments(tmp_path), []), {})
    assert not census.changed
    assert sum(map(len, census.superseded.values())) == 5
    assert tally(tmp_path).repos == 1


def census_of(folder: Path) -> Census:
    return take_census(open_all(find_segments(folder), []), load_tombstones(folder))


def test_a_delta_without_its_repository_counts_as_nothing_and_is_named(tmp_path: Path) -> None:
    life = LivingRepo(2)
    write(tmp_path, [pack(life.change())])
    for _ in range(2):
        counts = tally(tmp_path)
        assert counts.repos == 0
        assert {one.what.removeprefix(f"{DID}: ") for one in counts.damage} == {ORPHAN}
        assert look_up(tmp_path, DID).block is None
        assert [one.what for one in look_up(tmp_path, DID).damage] == [ORPHAN] * len(counts.damage)
        write(tmp_path, [pack(life.change())])


def test_a_chain_that_is_broken_is_named(tmp_path: Path) -> None:
    life = LivingRepo(3)
    first = life.rev
    write(tmp_path, [life.full])
    life.change()
    write(tmp_path, [pack(life.change())])
    found = look_up(tmp_path, DID)
    assert found.block and found.block.head.rev == first
    assert [life.rev in one.what for one in found.damage] == [True]
    census = census_of(tmp_path)
    (broken,) = census.broken
    assert DID in broken.what and life.rev in broken.what
    # What is there before the gap is proven all the same.
    proven: list[Proven] = []
    for path in find_segments(tmp_path):
        verify_segment(path, tell=proven.append, census=census)
    assert [(one.verdict.rev, one.verdict.proven) for one in proven] == [(first, True)]


def test_what_was_left_out_by_a_filter_cannot_be_followed_by_proof(tmp_path: Path) -> None:
    life = LivingRepo(4, 60)
    life.full = life.signed_block(ExtractOptions(proof=True, collections=("x.y.z",)))
    delta = life.change()
    write(tmp_path, [life.full, pack(delta)])
    census = take_census(open_all(find_segments(tmp_path), []), {})
    proven: list[Proven] = []
    assert not list(prove_folded(census, proven.append))
    assert proven[0].verdict.reason == PRUNED
    assert not look_up(tmp_path, DID).damage


def test_a_delta_changes_no_block_of_version_1(tmp_path: Path) -> None:
    life = LivingRepo(5)
    delta = replace(life.change(), since=REV, rev=tid(int(2e15)))

    write(tmp_path, [make_block(DID)])
    write(tmp_path, [pack(delta)])
    found = look_up(tmp_path, DID)
    assert found.block and found.damage
    assert found.block.head.form is rca.Form.FIRST
