"""An archive of version 2 that earlier code has written: read, and proven as it was then."""

from __future__ import annotations

from pathlib import Path

from tests.frozen.ice import notes, thaw
from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.compact import compact
from trawlnet.archive.proving.proofs import PRUNED
from trawlnet.archive.reader import find_segments
from trawlnet.archive.tally import open_all, tally
from trawlnet.archive.verify import Proven, prove_folded, verify_segment


def said(archive: Path) -> dict[str, object]:
    proven: list[Proven] = []
    census = take_census(open_all(find_segments(archive), []), load_tombstones(archive))
    assert not census.broken
    for path in find_segments(archive):
        assert verify_segment(path, tell=proven.append, census=census).sound
    assert not list(prove_folded(census, proven.append))
    counts = tally(archive)
    assert not counts.damage
    return {
        "repos": counts.repos,
        "records": counts.records,
        "roots": {one.verdict.did: one.verdict.root for one in proven if one.verdict.proven},
        "unproven": {one.verdict.did: one.verdict.reason for one in proven if one.verdict.misfits},
    }


def test_an_archive_of_version_2_is_proven_as_it_was(tmp_path: Path) -> None:
    folder = thaw("rca-2", tmp_path)
    then = notes(folder)
    assert len(then["roots"]) == 6
    assert said(folder / "archive") == then


def test_an_archive_with_deltas_is_folded_as_it_was(tmp_path: Path) -> None:
    """Over several segments, twice, in batches that overlap, with a filter, under a tombstone."""
    folder = thaw("rca-2-deltas", tmp_path)
    then = notes(folder)
    assert (len(then["roots"]), list(then["unproven"].values())) == (6, [PRUNED])
    assert said(folder / "archive") == then
    done = compact(folder / "archive", lambda: 1.7e9)
    assert done.folded and not done.damage
    assert said(folder / "archive") == then
