"""`repos follow` over a network that changes: archive and events end at its truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import Started, trawlnet
from tests.support.repos.followed import (
    LiveWorld,
    archived_texts,
    differences,
    folded_events,
    follow_flags,
    following,
    live_world,
)
from trawlnet.archive.reader import NoArchive
from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.repos.following.live_store import LiveChange, LiveStore

ACTS = 60
LEFT = "left.example"  # A relay that was followed once.


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_servers_are_followed_directly_after_a_crawl_and_after_a_stop(tmp_path: Path) -> None:
    """What changed between the crawl and the first message, and between two runs, is found."""
    workspace = tmp_path / "net"
    with live_world(8, tmp_path, accounts=40, hosts=3) as living:
        flags = follow_flags(living.world)
        assert trawlnet("repos", "crawl", "-w", workspace, *flags).code in (0, 3)
        living.acts(ACTS)
        servers = [flag for url in living.world.pds for flag in ("--pds", url)]
        flags = follow_flags(living.world, *servers)
        for _ in range(2):
            with following(tmp_path, "follow", workspace, *flags) as started:
                started.until(lambda: is_archived(workspace, living), "the truth")
                living.acts(ACTS)
                started.until(lambda: is_archived(workspace, living), "the truth")
            living.acts(ACTS)
        save_cursor(workspace, LEFT, HostCursor(7, "2020-01-01T00:00:00Z"))
        with following(tmp_path, "follow", workspace, *flags) as started:
            started.until(lambda: is_archived(workspace, living), "the truth")
        assert differences(archived_texts(workspace), living.texts()) == []
        status = trawlnet("repos", "status", "-w", workspace, "--json").rows[0]["live"]
        assert len(status["cursor"].keys() - {LEFT}) == len(living.world.pds)
        assert status["seconds_behind"] < 86_400, "what is not followed is not behind"
        assert status["rejected"] == {}
        assert status["verified"] > ACTS


def save_cursor(workspace: Path, host: str, cursor: HostCursor) -> None:
    live = LiveStore.open(workspace / "state" / "repos")
    live.apply(LiveChange(cursors={host: cursor}))
    live.close()


def is_archived(workspace: Path, living: LiveWorld) -> bool:
    try:
        return archived_texts(workspace) == living.texts()
    except NoArchive:
        return False
