"""`repo_records` while a network is followed: asked beside the follower, it is the truth."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.program import PATIENCE, Started, trawlnet
from tests.support.repos.followed import (
    Content,
    LiveWorld,
    differences,
    follow_flags,
    following,
    live_world,
)
from trawlnet.archive.format.json_cbor_plain import record_cbor
from trawlnet.atproto.cid import cid_of

KILLS = 6
CURRENT = "SELECT repo, collection, rkey, record_json FROM repo_records"


def tabled_content(workspace: Path) -> Content:
    ran = trawlnet("repos", "query", "-w", workspace, CURRENT, "--json")
    assert ran.code == 0, ran.err
    found: dict[str, dict[str, str]] = {}
    for row in ran.rows:
        cid = str(cid_of(record_cbor(row["record_json"].encode())))
        found.setdefault(row["repo"], {})[f"{row['collection']}/{row['rkey']}"] = cid
    return found


def until_true(started: Started, workspace: Path, living: LiveWorld) -> None:
    truth, wrong = living.truth(), ["nothing was asked"]

    def is_true() -> bool:
        wrong[:] = differences(tabled_content(workspace), truth)
        return not wrong

    try:
        started.until(is_true, "the truth in the table")
    except AssertionError as error:
        raise AssertionError("\n".join(wrong)) from error


@pytest.mark.slow
def test_the_table_is_the_truth_while_a_crawled_network_is_followed_and_killed(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "net"
    with live_world(6, tmp_path, accounts=30, hosts=3) as living:
        flags = follow_flags(living.world)
        ran = trawlnet("repos", "crawl", "-w", workspace, *flags)
        assert ran.code in (0, 3), ran.err
        for _ in range(KILLS):
            started = Started(("repos", "follow", "-w", workspace, *flags), tmp_path / "out", {})
            try:
                lines = spooled(workspace)
                living.acts(40)
                started.until(lambda lines=lines: spooled(workspace) > lines, "more events")
            finally:
                started.process.send_signal(signal.SIGKILL)
                started.process.wait(PATIENCE)
        with following(tmp_path, "follow", workspace, *flags) as started:
            living.acts(40)
            until_true(started, workspace, living)
            status = json.loads(trawlnet("repos", "status", "-w", workspace, "--json").out)
            assert status["live"]["tables"]["seconds_behind"] is not None
        assert differences(tabled_content(workspace), living.truth()) == []
        again = trawlnet("repos", "replay", "-w", workspace)
        assert again.code == 0, again.err
        assert differences(tabled_content(workspace), living.truth()) == [], "nor does a replay"


def test_a_follower_without_live_tables_makes_none(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(7, tmp_path, accounts=8, hosts=2) as living:
        flags = (*follow_flags(living.world), "--live-tables", "off", "--from-start")
        with following(tmp_path, "follow", workspace, *flags) as started:
            living.acts(20)
            started.until(lambda: spooled(workspace) > 0, "events")
        assert not (workspace / "tables").exists()


def spooled(workspace: Path) -> int:
    files = (workspace / "spool" / "repo_events").glob("*.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in files)
