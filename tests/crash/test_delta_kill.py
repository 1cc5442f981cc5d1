"""SIGKILL at random instants of a writer of deltas, and of the compaction that folds them: what was
acknowledged is there, proven, and known to the notes."""

from __future__ import annotations

import random
from pathlib import Path

from tests.crash import delta_roles
from tests.crash.nursery import nursery_of
from tests.support.long import times
from tests.support.program import wait_until
from tests.support.repos.living import LivingRepo, cids, texts
from trawlnet.archive.census import take_census
from trawlnet.archive.lookup import FoundRecord, look_up, records
from trawlnet.archive.past import StateFinder
from trawlnet.archive.reader import find_segments, open_segment
from trawlnet.archive.tally import open_all, tally
from trawlnet.archive.verify import Proven, prove_folded, verify_segment
from trawlnet.crawlers.repos.catalogue import ArchiveCatalogue
from trawlnet.net.clock import SystemClock
from trawlnet.stores.lmdb.notes import open_notes

KILLS = times(6, 30)
FOLD_KILLS = times(6, 25)


def revs_of(life: LivingRepo) -> list[str]:
    """From its full block on."""
    for _ in range(delta_roles.STEPS - 1):
        life.change()
    return list(life.past)


def trouble(folder: Path) -> str:
    """What is wrong; empty when nothing is."""
    archive = folder / "archive"
    finder = StateFinder(archive)
    census = take_census(open_all(find_segments(archive), []), {})
    if census.broken or census.damage:
        return str([*census.broken, *census.damage][0])
    proven: list[Proven] = []
    for path in find_segments(archive):
        verdict = verify_segment(path, tell=proven.append, census=census)
        if not verdict.sound:
            return str(verdict.damage[0])
    if wrong := list(prove_folded(census, proven.append)):
        return str(wrong[0])
    now = {one.verdict.did: one.verdict for one in proven}
    for life, steps in zip(delta_roles.lives(), delta_roles.acknowledged(folder), strict=True):
        if not steps:
            continue
        revs = revs_of(life)
        verdict = now.get(life.did)
        if verdict is None or verdict.rev < revs[steps - 1]:
            return f"{life.did}: {revs[steps - 1]} was acknowledged, {verdict and verdict.rev} is"
        if not verdict.proven:
            return f"{life.did}: {verdict.reason}"
        found = look_up(archive, life.did)
        assert found.segment and found.block and not found.damage
        rows = records(found.segment, found.block, lambda name: True)
        kept = [one for one in rows if isinstance(one, FoundRecord)]
        shown = {f"{one.collection}/{one.rkey}": one.json for one in kept}
        if shown != texts(life.past[verdict.rev]):
            return f"{life.did}: other records at {verdict.rev}"
        past = finder.at(life.did, verdict.rev)
        if past is None or past.root is None or cids(past.state) != life.cids(verdict.rev):
            return f"{life.did}: no state at {verdict.rev}"
    return ""


def noted(folder: Path) -> list[str | None]:
    notes = open_notes(folder / "notes")
    catalogue = ArchiveCatalogue(notes, folder / "archive", SystemClock())
    found = [catalogue.rev(life.did) for life in delta_roles.lives()]
    catalogue.close()
    notes.close()
    return found


def written(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "archive").glob("*.rca"))


def test_nothing_that_was_acknowledged_is_lost_by_kills_of_writer_and_compaction(
    tmp_path: Path,
) -> None:
    dice = random.Random(KILLS)
    (tmp_path / "archive").mkdir()
    with nursery_of("delta_roles", tmp_path) as nursery:
        killed = sum(
            nursery.kill_at_any_instant("follow", lambda: written(tmp_path), dice, 4000)
            for _ in range(KILLS)
        )
        assert killed >= 3
        assert trouble(tmp_path) == "", "readers see everything before any recovery"
        assert nursery.wait(nursery.start("follow")) == 0
        assert trouble(tmp_path) == ""
        assert tally(tmp_path / "archive").deltas > 2 * delta_roles.REPOS
        for _ in range(FOLD_KILLS):
            nursery.kill_at_any_instant("fold", lambda: 0, dice, 1)
            assert trouble(tmp_path) == ""
        assert nursery.wait(nursery.start("fold")) == 0
    assert trouble(tmp_path) == ""
    archive = tmp_path / "archive"
    counts = tally(archive)
    assert (counts.repos, counts.deltas, counts.superseded) == (delta_roles.REPOS, 0, 0)
    assert all(open_segment(path).finalised for path in find_segments(archive))
    assert not list(archive.glob("*.damaged")) and not list(archive.glob(".*.tmp"))
    assert noted(tmp_path) == [revs_of(life)[-1] for life in delta_roles.lives()]


def test_the_check_has_teeth(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    with nursery_of("delta_roles", tmp_path) as nursery:
        assert nursery.wait(nursery.start("begin")) == 0
        assert trouble(tmp_path) == ""
        second = nursery.start("acknowledge_first")
        wait_until((tmp_path / "exposed").exists, "the instant that is not covered")
        assert nursery.kill(second)
    assert trouble(tmp_path)
