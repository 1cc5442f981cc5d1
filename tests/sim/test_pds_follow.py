"""`pds crawl --follow` over a network that changes: the tables end at its truth, within seconds."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.pds.followed import (
    follow_command,
    tabled,
    until_joined,
    until_true,
)
from tests.support.program import PATIENCE, started, trawlnet
from tests.support.repos.followed import live_world

KILLS = 4


@pytest.mark.parametrize("relay", [True, False], ids=["relay", "pdses"])
def test_what_changes_is_in_the_tables_at_once_also_after_kills(
    tmp_path: Path, relay: bool
) -> None:
    workspace = tmp_path / "net"
    with live_world(8, tmp_path, accounts=25, hosts=3) as living:
        command = follow_command(workspace, living, relay=relay)
        for _ in range(KILLS):
            with started(*command, folder=tmp_path / "out") as running:
                living.acts(15)
                running.until(lambda: bool(tabled(workspace)), "records")
                living.acts(15)
                running.process.send_signal(signal.SIGKILL)
                running.process.wait(PATIENCE)
        with started(*command, folder=tmp_path / "out") as running:
            until_true(running, workspace, living)
            until_joined(running, workspace, living, 1 if relay else 3)
            living.acts(20)
            until_true(running, workspace, living)
        # From now on no scan of a whole PDS is due for hours: looks alone see what happens.
        with started(*command, "--rescan-pause", "5h", folder=tmp_path / "out") as running:
            for _ in range(8):
                living.acts(20)
                until_true(running, workspace, living)
            status = json.loads(trawlnet("pds", "status", "-w", workspace, "--json").out)
            live = status["live"]
            assert live["commits"] > 0 and live["seconds_behind"] is not None
            assert live["looks_made"] > 0
            running.tell(signal.SIGTERM)
            assert running.ended().code == 130
        rest = json.loads(trawlnet("pds", "status", "-w", workspace, "--json").out)["live"]
        assert rest["cursor"] == live["cursor"] or sum(rest["cursor"].values()) > 0
