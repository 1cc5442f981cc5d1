"""Every reader over an archive with deltas: it shows what each repository has become."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import trawlnet
from tests.support.program import Ran
from tests.support.repos.living import LivingArchive, LivingRepo, did_of, pack, texts
from tests.support.repos.made_segments import NOW, write
from tests.support.repos.provable import KEY
from tests.support.repository.reading import verify_repo
from trawlnet.archive.compact import compact, plan_compaction
from trawlnet.archive.format.content import ExtractOptions
from trawlnet.archive.format.folding import make_delta
from trawlnet.archive.past import StateFinder
from trawlnet.archive.proving.proofs import PRUNED
from trawlnet.archive.reader import find_segments
from trawlnet.archive.survey import survey
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.cli.main import run

Ask = Callable[..., Ran]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def call(*arguments: object) -> Ran:
        capsys.readouterr()
        code = run([str(one) for one in arguments])
        return Ran(code, *capsys.readouterr())

    return call


@pytest.fixture
def past(tmp_path: Path) -> Iterator[LivingArchive]:
    yield LivingArchive(tmp_path / "archive")


def shown(archive: Path) -> dict[str, dict[str, bytes]]:
    """As `import trawlnet` shows it."""
    found: dict[str, dict[str, bytes]] = {
        repo.did: {} for repo in trawlnet.open_archive(archive).repos()
    }
    for one in trawlnet.open_archive(archive).records():
        found[one.did][f"{one.collection}/{one.rkey}"] = one.json
    return found


def cat(ask: Ask, archive: Path, name: str) -> dict[str, object]:
    ran = ask("repos", "cat", archive, "--did", name)
    assert ran.code == 0, ran.err
    rows = map(json.loads, ran.out.split("\n")[:-1])
    return {f"{row['collection']}/{row['rkey']}": row["value"] for row in rows}


def check_all(ask: Ask, archive: Path, lives: Sequence[LivingRepo]) -> None:
    """Every reader agrees with the truth, and finds nothing wrong."""
    truth = {life.did: texts(life.truth) for life in lives}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shown(archive) == truth
    records = sum(map(len, truth.values()))
    counts = json.loads(ask("repos", "tally", archive, "--json").out)
    assert (counts["repos"], counts["records"], counts["damage"]) == (len(truth), records, [])
    assert json.loads(ask("repos", "tally", archive, "--json").out)["deltas"] == counts["deltas"]
    seen = survey(archive)
    assert (seen.tally.repos, seen.tally.records, seen.tally.damage) == (len(truth), records, [])
    for life in lives:
        expected = {path: json.loads(text) for path, text in truth[life.did].items()}
        assert cat(ask, archive, life.did) == expected
        found = StateFinder(archive).at(life.did, life.rev)
        assert found and found.root == life.root()
    ran = ask("repos", "verify", archive)
    assert (ran.code, ran.out) == (0, ""), ran.out
    *rows, total = map(
        json.loads, ask("repos", "verify", archive, "--proofs", "--json").out.splitlines()
    )
    assert {row["did"]: row["rev"] for row in rows} == {life.did: life.rev for life in lives}
    assert (total["proven"], total["unproven"], total["damaged"]) == (len(truth), 0, 0)


def test_every_reader_shows_what_each_has_become(past: LivingArchive, ask: Ask) -> None:
    check_all(ask, past.folder, past.lives)
    blocks = sum(
        json.loads(ask("repos", "inspect", path, "--json").out)["deltas"]
        for path in find_segments(past.folder)
    )
    counts = json.loads(ask("repos", "tally", past.folder, "--json").out)
    assert blocks > counts["deltas"] > len(past.lives)
    assert counts["superseded"] == blocks - counts["deltas"], "those that were written twice"


def test_compaction_folds_and_every_reader_shows_the_same(past: LivingArchive, ask: Ask) -> None:
    check_all(ask, past.folder, past.lives)
    plan = plan_compaction(past.folder)
    done = compact(past.folder, lambda: NOW)
    assert (plan.folded, plan.deltas, plan.superseded) == (
        done.folded,
        done.deltas,
        done.superseded,
    )
    assert (plan.removed, plan.rewritten) == (done.removed, done.rewritten)
    assert done.folded and not done.damage
    check_all(ask, past.folder, past.lives)
    counts = json.loads(ask("repos", "tally", past.folder, "--json").out)
    assert (counts["deltas"], counts["superseded"]) == (0, 0)
    assert not plan_compaction(past.folder).folded
    # Deltas lead on from what was folded.
    past.go_on()
    check_all(ask, past.folder, past.lives)
    ran = ask("repos", "compact", past.folder)
    assert ran.code == 0 and "folded" in ran.err
    check_all(ask, past.folder, past.lives)


def test_a_folded_block_is_byte_for_byte_what_a_crawl_would_have_written(
    past: LivingArchive, ask: Ask, tmp_path: Path
) -> None:
    """But for the instant: what is proven is the same repository."""
    compact(past.folder, lambda: NOW)
    for life in past.lives:
        out = tmp_path / "repo.car"
        ask("repos", "car", past.folder, "--did", life.did, "-o", out)
        write(tmp_path / life.did[-3:], [life.signed_block()])
        other = tmp_path / "other.car"
        ask("repos", "car", tmp_path / life.did[-3:], "--did", life.did, "-o", other)
        assert out.exists() == other.exists()
        if out.exists():
            assert out.read_bytes() == other.read_bytes()
            out.unlink()
            other.unlink()


def test_the_car_of_a_changed_repository_is_that_of_its_server(
    past: LivingArchive, ask: Ask
) -> None:
    cars = 0
    for life in past.lives:
        out = past.folder.parent / f"{life.did[-3:]}.car"
        ran = ask("repos", "car", past.folder, "--did", life.did, "-o", out)
        if len(texts(life.truth)) < len(life.truth):
            assert "left out" in ran.err
            continue
        cars += 1
        repo = verify_repo(out.read_bytes(), life.did, KEY.public)
        assert (repo.commit.rev, repo.commit.data.raw) == (life.rev, life.root())
        assert {f"{one.collection}/{one.rkey}": one.data for one in repo.records()} == life.truth
    assert cars


def test_tombstones_hide_deltas_before_them_and_not_those_of_a_new_life(
    past: LivingArchive, ask: Ask
) -> None:
    gone, back, raced = past.lives[:3]
    append_tombstones(past.folder, [Tombstone(gone.did, "deactivated", gone.now_us)])
    append_tombstones(past.folder, [Tombstone(back.did, "deactivated", back.now_us)])
    # Written while the tombstone was on its way: it lies under it.
    append_tombstones(past.folder, [Tombstone(raced.did, "deactivated", raced.now_us)])
    back.change()
    write(past.folder, [pack(raced.change()), back.signed_block(), pack(back.change())])
    past.lives = [life for life in past.lives if life not in (gone, raced)]
    check_all(ask, past.folder, past.lives)
    for life in (gone, raced):
        ran = ask("repos", "cat", past.folder, "--did", life.did)
        assert ran.code == 1 and "is gone: deactivated" in ran.err
    done = compact(past.folder, lambda: NOW)
    assert done.tombstoned and not done.damage
    check_all(ask, past.folder, past.lives)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_damaged_delta_costs_what_came_after_it(tmp_path: Path, ask: Ask) -> None:
    life, archive = LivingRepo(5), tmp_path / "archive"
    blocks, revs = [life.full], [life.rev]
    for _ in range(4):
        blocks.append(pack(life.change()))
        revs.append(life.rev)
    for block in blocks:
        write(archive, [block])
    flip(archive / "segment_0004.rca", 64 + len(blocks[3]) - 3)
    expected = texts(life.past[revs[2]])
    with pytest.warns(trawlnet.DamagedArchive):
        assert shown(archive) == {life.did: expected}
    ran = ask("repos", "cat", archive, "--did", life.did)
    assert ran.code == 1 and ran.out.count("\n") == len(expected)
    assert "segment_0004.rca@64" in ran.err and revs[4] in ran.err
    ran = ask("repos", "verify", archive, "--proofs")
    assert ran.code == 1
    assert "segment_0004.rca@64" in ran.out
    before = {path: path.read_bytes() for path in find_segments(archive)}
    done = compact(archive, lambda: NOW)
    # What comes before is folded, what comes behind stays, and is told.
    assert done.damage and (done.folded, done.deltas) == (1, 2)
    assert (archive / "segment_0004.rca").read_bytes() == before[archive / "segment_0004.rca"]
    assert (archive / "segment_0005.rca").read_bytes() == before[archive / "segment_0005.rca"]
    with pytest.warns(trawlnet.DamagedArchive):
        assert shown(archive) == {life.did: expected}


@pytest.mark.parametrize("is_damaged", [False, True])
def test_deltas_whose_base_is_gone_count_as_nothing_and_are_named(
    tmp_path: Path, ask: Ask, is_damaged: bool
) -> None:
    archive, life, lone = tmp_path / "archive", LivingRepo(6), LivingRepo(7, did=did_of(7))
    write(archive, [life.full])
    write(archive, [pack(life.change()), pack(life.change())])
    write(archive, [pack(lone.change())])
    base = archive / "segment_0001.rca"
    flip(base, 64 + len(life.full) - 3) if is_damaged else base.unlink()
    for verb in (("tally",), ("verify",), ("verify", "--proofs")):
        ran = ask("repos", verb[0], archive, *verb[1:])
        assert ran.code == 1, verb
        assert "a delta of a repository that is not there" in ran.out + ran.err
        assert "segment_0003.rca@64" in ran.out + ran.err
    ran = ask("repos", "cat", archive, "--did", lone.did)
    assert ran.code == 1 and "cannot be read" in ran.err
    files = {path: path.read_bytes() for path in find_segments(archive)}
    assert compact(archive, lambda: NOW).damage
    assert {path: path.read_bytes() for path in find_segments(archive)} == files


def test_after_a_kill_commits_come_again_in_other_batches(tmp_path: Path, ask: Ask) -> None:
    """One delta of three commits, and then each of them alone, or the other way round."""
    for seed, is_whole_first in ((1, True), (2, False)):
        archive, life = tmp_path / str(seed), LivingRepo(seed)
        before, since = life.full, life.rev
        singles = [life.change() for _ in range(3)]
        changed, deleted = dict[str, bytes](), set[str]()
        for one in singles:
            for path in (*one.records, *one.left_out):
                changed[path.decode()] = life.past[one.rev][path.decode()]
                deleted.discard(path.decode())
            for path in one.deleted:
                changed.pop(path.decode(), None)
                deleted.add(path.decode())
        last = singles[-1]
        whole = make_delta(
            (life.did, last.pds),
            (last.rev, last.crawled_at_us),
            (last.key, last.signature),
            since=since,
            changed=changed,
            deleted=deleted,
        )
        parts = [pack(one) for one in singles]
        behind = [pack(whole), *parts] if is_whole_first else [*parts, pack(whole)]
        for block in (before, *behind, pack(life.change())):
            write(archive, [block])
        check_all(ask, archive, [life])
        # Killed between the first of the singles and the second.
        (archive / f"segment_000{4 if is_whole_first else 3}.rca").unlink()
        check_all(ask, archive, [life])
        compact(archive, lambda: NOW)
        check_all(ask, archive, [life])


def test_a_clock_that_goes_back_hides_no_delta(tmp_path: Path, ask: Ask) -> None:
    archive, life = tmp_path / "archive", LivingRepo(8)
    write(archive, [life.full])
    at_us = life.now_us
    for behind in (60_000_000, 60_000_000, 90_000_000):
        delta = life.change()
        write(archive, [pack(replace(delta, crawled_at_us=delta.crawled_at_us - behind))])
        check_all(ask, archive, [life])
    # Tables keep what is latest: each state is later than the one before.
    (repo,) = trawlnet.open_archive(archive).repos()
    assert repo.crawled_at.timestamp() * 1e6 > at_us
    compact(archive, lambda: NOW)
    check_all(ask, archive, [life])


def test_a_server_that_went_back_is_believed(tmp_path: Path, ask: Ask) -> None:
    """A repository that was restored from a backup, and crawled again: what was followed before
    leads on from its rev, and is older all the same."""
    archive, life = tmp_path / "archive", LivingRepo(12)
    write(archive, [life.full, *(pack(life.change()) for _ in range(3))])
    then = LivingRepo(12)
    then.change()
    then.now_us = life.now_us + 1
    write(archive, [then.signed_block()])
    check_all(ask, archive, [then])


def test_what_a_filter_leaves_out_is_the_reason_and_not_the_signature(
    tmp_path: Path, ask: Ask
) -> None:
    """Nothing was left out when it was archived; a commit since then has changed a record of a
    collection that is not."""
    archive, life = tmp_path / "archive", LivingRepo(9)
    everything = ("a.b.*", "x.y.*")
    full = life.signed_block(ExtractOptions(proof=True, collections=everything))
    since = life.rev
    life.truth = {**life.truth, "other.c.d/1": life.record()}
    delta = life.change()
    partial = make_delta(
        (life.did, delta.pds),
        (delta.rev, delta.crawled_at_us),
        (delta.key, delta.signature),
        since=since,
        changed={path.decode(): life.truth[path.decode()] for path in delta.records},
        is_partial=True,
    )
    write(archive, [full, pack(partial)])
    for _ in range(2):
        ran = ask("repos", "verify", archive, "--proofs")
        assert ran.code == 1
        assert PRUNED in ran.out and "not signed" not in ran.out
        ran = ask("repos", "car", archive, "--did", life.did)
        assert ran.code == 1 and "left out" in ran.err
        done = compact(archive, lambda: NOW)
        assert not done.damage
