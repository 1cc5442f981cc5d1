"""SIGKILL at random instants of a real writer of segments: nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.crash import segment_roles
from tests.crash.nursery import Nursery, nursery_of
from tests.support.long import times
from tests.support.program import wait_until
from tests.support.repos.made_segments import dids_in
from trawlnet.archive.lookup import look_up
from trawlnet.archive.reader import find_segments, open_segment
from trawlnet.archive.tally import tally
from trawlnet.archive.verify import verify_segment

KILLS = times(20, 40)


def kill_again_and_again(nursery: Nursery) -> int:
    """Returns how many of the killed left a segment that was not finalised."""
    dice, unfinished = random.Random(KILLS), 0
    for kill in range(KILLS):
        before = acknowledged_bytes(nursery.folder)
        pid = nursery.start("sound")
        if kill % 2:  # On a busy machine it may not have got anywhere yet.
            wait_until(lambda old=before: acknowledged_bytes(nursery.folder) > old, "a batch")
        time.sleep(dice.uniform(0.01, 0.08))
        assert nursery.kill(pid), "it never ends by itself"
        archive = nursery.folder / "archive"
        for path in archive.glob("*.rca"):
            unfinished += not open_segment(path).finalised
    return unfinished


def acknowledged_bytes(folder: Path) -> int:
    file = folder / "acknowledged"
    return file.stat().st_size if file.exists() else 0


def trouble(folder: Path) -> str:
    """What is wrong with the archive; empty when nothing is."""
    archive = folder / "archive"
    wanted = {segment_roles.did_of(number) for number in segment_roles.acknowledged(folder)}
    lost = wanted - set(dids_in(archive))
    if lost:
        return f"{len(lost)} of {len(wanted)} are lost"
    for path in find_segments(archive):
        verdict = verify_segment(path)
        if not verdict.sound:
            return str(verdict.damage[0])
    return ""


def test_nothing_acknowledged_is_lost_over_many_kills(tmp_path: Path) -> None:
    with nursery_of("segment_roles", tmp_path) as nursery:
        unfinished = kill_again_and_again(nursery)
        assert unfinished >= KILLS / 2, "most kills must hit a writer at work"
        assert trouble(tmp_path) == "", "readers see everything before any recovery"
        (tmp_path / "stop").touch()
        assert nursery.wait(nursery.start("sound")) == 0
    assert trouble(tmp_path) == ""
    archive = tmp_path / "archive"
    assert all(open_segment(path).finalised for path in find_segments(archive))
    assert not list(archive.glob("*.damaged")) and not list(archive.glob(".*.tmp"))

    numbers = segment_roles.acknowledged(tmp_path)
    assert len(numbers) > 200 and len(find_segments(archive)) > 2
    counts = tally(archive)
    # Written and not yet acknowledged when it died: written again by the next one.
    assert counts.superseded <= KILLS * segment_roles.BATCH
    assert len(numbers) <= counts.repos <= len(numbers) + segment_roles.BATCH
    for number in random.Random(3).sample(numbers, 25):
        found = look_up(archive, segment_roles.did_of(number))
        assert found.segment and found.block
        with found.segment.open() as fd:
            stored = os.pread(fd, found.block.head.size, found.block.offset)
        assert stored == segment_roles.make(number)


@pytest.mark.parametrize("role", ["acknowledge_first", "start_over", "header_first"])
def test_the_check_has_teeth(role: str, tmp_path: Path) -> None:
    """Each of these breaks one rule, and the same check sees it."""
    with nursery_of("segment_roles", tmp_path) as nursery:
        first = nursery.start("sound")
        wait_until(lambda: acknowledged_bytes(tmp_path) > 0, "a batch")
        assert nursery.kill(first)
        assert trouble(tmp_path) == ""
        second = nursery.start(role)
        wait_until((tmp_path / segment_roles.EXPOSED).exists, "the instant that is not covered")
        assert nursery.kill(second)
    assert trouble(tmp_path)
