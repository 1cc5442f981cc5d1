"""`trawlnet health`, as a container's health check asks it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.support.program import at_once, started, wait_until
from trawlnet.cli.common.sections import SECTIONS
from trawlnet.cli.common.workspace import create, locked, write_snapshot


def code(workspace: Path, *more: object) -> int:
    return at_once("health", "-w", workspace, *more).code


def test_a_crawl_is_healthy_while_it_runs_and_not_when_it_hangs_or_has_ended(
    network: Any, tmp_path: Path
) -> None:
    workspace = tmp_path / "net"
    assert code(workspace) == 10
    with started(*network.crawl(workspace, rps=1.0), folder=tmp_path / "io") as crawl:
        snapshot = workspace / "state" / "repos" / "status.json"
        crawl.until(snapshot.exists, "its first report")
        assert code(workspace) == 0
        crawl.tell(signal.SIGSTOP)
        wait_until(lambda: code(workspace, "--within", "1") == 1, "that it is told to hang")
        ran = at_once("health", "-w", workspace, "--within", "1", "--json")
        assert "has reported nothing for" in ran.error["error"]
        crawl.tell(signal.SIGCONT)
        wait_until(lambda: code(workspace) == 0, "that it goes on")
        crawl.tell(signal.SIGTERM)
        assert crawl.ended().code == 130
    assert code(workspace) == 1


def test_a_report_of_an_earlier_process_with_the_same_pid_is_not_believed(
    network: Any, tmp_path: Path
) -> None:
    """In a container every crawl has the same pid."""
    place = create(tmp_path / "net", "repos")
    with started(*network.crawl(place.path, rps=1.0), folder=tmp_path / "io") as crawl:
        write_snapshot(place, {"running": crawl.pid, "known": -1})
        crawl.says("crawling into")
        wait_until(
            lambda: (
                not place.snapshot_file.exists()
                or json.loads(place.snapshot_file.read_text())["known"] >= 0
            ),
            "its own report",
        )
        assert code(place.path) == 0


def test_every_crawler_is_looked_at_and_one_that_stands_by_is_well(tmp_path: Path) -> None:
    for name in SECTIONS:
        place = create(tmp_path, name)
        assert code(tmp_path) == 1
        with locked(place):
            assert at_once("health", "-w", tmp_path).out.startswith(f"{name} crawl: started")


def test_processes_without_a_lock_are_known_by_what_they_touch(tmp_path: Path) -> None:
    place = create(tmp_path, "ids")
    for file in (place.fleet_pulse, place.store_figures):
        file.touch()
        assert code(tmp_path) == 0
        long_ago = time.time() - 3600
        os.utime(file, (long_ago, long_ago))
        assert code(tmp_path) == 1
        with locked(place):
            assert code(tmp_path) == 0, "an old sign of another process does not count"
