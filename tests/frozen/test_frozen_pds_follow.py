"""A registry that earlier code had kept up with a firehose: told of, and kept up again."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.frozen.ice import copies, notes, thaw
from tests.frozen.story import check_story, done
from tests.frozen.worlds import followed_world
from tests.support.pds.followed import follow_command, position, rows_of, tabled, wanted
from tests.support.program import PATIENCE, at_once
from tests.support.repos.followed import LiveWorld, differences
from trawlnet.cli.common.errors import Exit

LATER = 12  # Acts of the world that nobody listened to.
WAITING = "SELECT did FROM pds_looks WHERE asked > seen"


@pytest.mark.parametrize("name", copies("pds-follow"))
def test_a_killed_follower_is_told_of_and_goes_on_from_its_cursor(
    name: str, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    then = notes(folder)
    check_story("pds", folder, verbs=("status", "list"))
    assert position(folder) == then["cursor"]
    assert sorted(did for (did,) in rows_of(folder, WAITING)) == then["looks"] != []
    (tmp_path / "world").mkdir()
    with followed_world(tmp_path / "world") as world:
        living = world.living
        world.happen(0, then["acts"] + LATER, drops=False)
        stopping = threading.Thread(target=stop_when_true, args=(living, folder))
        stopping.start()
        done(at_once(*follow_command(folder, living)), Exit.INTERRUPTED)
        stopping.join()
        assert differences(tabled(folder), wanted(living.truth())) == []
        living.world.served._log.flush()
        assert position(folder) == living.world.relay_stream.log.last
    assert rows_of(folder, WAITING) == []
    assert subscribed(tmp_path / "world" / "log")[0] == then["cursor"]


def stop_when_true(living: LiveWorld, folder: Path) -> None:
    """By the file that anybody may make: signals would meet the tests."""
    truth, last = wanted(living.truth()), living.world.relay_stream.log.last
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if tabled(folder) == truth and position(folder) == last and not rows_of(folder, WAITING):
            break
        time.sleep(0.1)
    (folder / "stop").touch()


def subscribed(log: Path) -> list[int]:
    """The cursors that the relay was given."""
    paths = [urlsplit(json.loads(line)["path"]) for line in log.read_text().splitlines()]
    asked = [parse_qs(p.query) for p in paths if p.path.endswith(".subscribeRepos")]
    return [int(query["cursor"][0]) for query in asked]
