"""`repos follow` over a network that changes: archive and events end at its truth."""

from __future__ import annotations

from pathlib import Path

from tests.support.program import Started
from tests.support.repos.followed import (
    LiveWorld,
    archived_texts,
    differences,
    folded_events,
    follow_flags,
    following,
    live_world,
)

ACTS = 60


def until_true(started: Started, workspace: Path, living: LiveWorld) -> None:
    """Until a consumer of the events knows the truth; it does not change any more."""
    truth = living.truth()

    def is_true() -> bool:
        return folded_events(workspace).content == truth

    try:
        started.until(is_true, "the truth")
    except AssertionError as error:
        wrong = differences(folded_events(workspace).content, truth)
        raise AssertionError("\n".join(wrong)) from error


def act_and_wait(started: Started, workspace: Path, living: LiveWorld) -> None:
    lines = folded_events(workspace).lines
    living.acts(ACTS)
    started.until(lambda: folded_events(workspace).lines > lines, "more events")


def test_a_crawl_that_follows_ends_at_the_truth(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(5, tmp_path, accounts=40, hosts=3) as living:
        flags = follow_flags(living.world)
        with following(tmp_path, "crawl", workspace, "--follow", *flags) as started:
            for _ in range(6):
                act_and_wait(started, workspace, living)
            until_true(started, workspace, living)
        folded = folded_events(workspace)
        assert differences(archived_texts(workspace), living.texts()) == []
        assert folded.wrong == []
        assert folded.lines == len(folded.ids), "nothing was killed: each event is there once"
