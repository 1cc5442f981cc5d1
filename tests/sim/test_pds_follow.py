"""`pds crawl --follow` over a network that changes: the tables end at its truth, within seconds."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.pds.followed import (
    NO_DIGITS,
    follow_command,
    forge,
    position,
    requests,
    tabled,
    until_joined,
    until_quiet,
    until_true,
    wanted,
)
from tests.support.program import PATIENCE, started, trawlnet
from tests.support.repos.followed import live_world

KILLS = 4


@pytest.mark.slow
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
            running.until(lambda: live(workspace)["looks_made"] > 0, "figures")
            assert live(workspace)["seconds_behind"] is not None
            running.tell(signal.SIGTERM)
            assert running.ended().code == 130
        assert sum(live(workspace)["cursor"].values()) == position(workspace)


@pytest.mark.slow
def test_invented_messages_change_nothing_and_cost_no_more_than_the_pace(tmp_path: Path) -> None:
    workspace, rpm, directory_rps = tmp_path / "net", 600, 20
    with live_world(9, tmp_path, accounts=24, hosts=3) as living:
        world = living.world
        command = follow_command(workspace, living, "--pending-looks", 100, rpm=rpm)
        limits = ("--looks-per-minute", 120, "--plc-rps", directory_rps)
        with started(*command, *limits, folder=tmp_path / "out") as running:
            until_true(running, workspace, living)
            until_joined(running, workspace, living, 1)
            until_true(running, workspace, living)
            before, began = requests(living), time.monotonic()
            real = sorted(wanted(living.truth()))
            nobody = [f"did:plc:{number:a>24}".translate(NO_DIGITS) for number in range(400)]
            strangers = [f"did:web:no{number}.example" for number in range(100)]
            for round in range(5):
                forge(living, [*real, *nobody, *strangers, *real[:1] * 100], round)
                living.acts(3)
            until_true(running, workspace, living)
            living.acts(10)
            until_true(running, workspace, living)
            seconds, after = time.monotonic() - began, requests(living)
            running.until(lambda: live(workspace)["commits"] >= 5 * (600 + len(real)), "figures")
            told = live(workspace)
        # A second of requests may have been saved up, and one is under way.
        for host in world.pds:
            assert after[host] - before[host] <= seconds * rpm / 60 + 12, (host, seconds)
        assert after[world.plc] - before[world.plc] <= (seconds + 2) * directory_rps
        assert told["looks_waiting"] <= 100 and told["overflowed"] > 0
        assert tabled(workspace) == wanted(living.truth())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accounts", "limit", "most"),
    [(1, ("--look-pause", 4), 1 / 4), (100, ("--looks-per-minute", 30), 1 / 2)],
    ids=["of one account", "at one PDS"],
)
def test_looks_have_limits_whatever_a_firehose_says(
    tmp_path: Path, accounts: int, limit: tuple[str, int], most: float
) -> None:
    """`most` looks a second; one at an account that has not changed is one request."""
    workspace = tmp_path / "net"
    with live_world(10, tmp_path, accounts=16, hosts=1) as living:
        command = (*follow_command(workspace, living, "--rescan-pause", "5h"), *limit)
        with started(*command, folder=tmp_path / "out") as running:
            until_true(running, workspace, living)
            until_joined(running, workspace, living, 1)
            until_true(running, workspace, living)
            until_quiet(running, workspace, living)
            dids = sorted(wanted(living.truth()))[:accounts]
            before, began = requests(living), time.monotonic()
            # After a visit of many looks the PDS is left alone for long: that is no end of looks.
            while time.monotonic() < began + 8 or requests(living) == before:
                assert time.monotonic() < began + PATIENCE
                forge(living, dids, 0)
            after, seconds = requests(living), time.monotonic() - began
        for host in living.world.pds:
            # At one PDS a minute's looks may be in a row, and others have been before.
            row = 1 if accounts == 1 else 30
            assert 0 < after[host] - before[host] <= seconds * most + row + 1


def live(workspace: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(trawlnet("pds", "status", "-w", workspace, "--json").out)
    return dict(told["live"])


def test_a_ban_holds_for_what_a_firehose_says(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(9, tmp_path, accounts=12, hosts=2) as living:
        command = follow_command(workspace, living)
        with started(*command, folder=tmp_path / "out") as running:
            until_true(running, workspace, living)
            until_joined(running, workspace, living, 1)
        for row in trawlnet("pds", "list", "-w", workspace, "--json").rows:
            assert trawlnet("pds", "ban", "-w", workspace, row["pds_url"]).code == 0
        with started(*command, folder=tmp_path / "out") as running:
            read = position(workspace)
            living.acts(40)
            running.until(lambda: position(workspace) > read, "the stream to be read")
            read = position(workspace)
            running.until(lambda: living.acts(1) or position(workspace) > read, "more of it")
        assert trawlnet("pds", "list", "-w", workspace, "--json").rows == []
        assert tabled(workspace) == {}
