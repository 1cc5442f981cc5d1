"""SIGKILL at random amounts of work of a crawl that follows: archive, events and truth are one."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.crash.nursery import PATIENCE, nursery_of, size_of
from tests.support.long import IS_LONG
from tests.support.repos.followed import (
    LiveWorld,
    archived_texts,
    differences,
    folded_events,
    live_world,
)
from tests.support.repos.run import FAST
from trawlnet.sim.atproto.live.relay_stream import Mischief, Spoiler

KILLS = 10
# Two to five minutes each.
LONG = [(int(seed), 100) for seed in os.environ.get("TRAWLNET_SEEDS", "40 41 42 43").split()]
LONG = LONG if IS_LONG else []
MOST_BETWEEN = 30_000  # Bytes of the event log from a start to its kill.
# A message that is dropped for good is noticed by the account's next one, which may never come.
SPOILER = Spoiler(0.15, tuple(kind for kind in Mischief if kind is not Mischief.DROP))


@pytest.mark.parametrize(("seed", "kills"), [(31, KILLS), *LONG])
def test_nothing_is_lost_and_nothing_invented_however_often_it_is_killed(
    seed: int, kills: int, tmp_path: Path
) -> None:
    kill_and_compare(tmp_path, seed, kills)


def kill_and_compare(folder: Path, seed: int, kills: int) -> None:
    workspace = folder / "net"
    dice, landed = random.Random(seed), 0
    with live_world(seed, folder, accounts=30, hosts=3, spoiler=SPOILER) as living:
        write_config(folder, living)
        with nursery_of("follow_roles", folder) as nursery:
            written = partial(size_of, workspace / "spool" / "repo_events", "*.jsonl")
            for _ in range(kills):
                with acting(living):
                    landed += nursery.kill_at_any_instant("follow", written, dice, MOST_BETWEEN)
            assert landed == kills, "it ends only when it is killed"
            pid = nursery.start("follow")
            until_true(workspace, living)
            nursery.kill(pid)
        judge(workspace, living)


def write_config(folder: Path, living: LiveWorld) -> None:
    world = living.world
    config = FAST | {"relay": [world.relay], "plc_url": world.plc, "segment_size": 200_000}
    quick = {"resync_pause": 0.2, "resyncs_per_hour": 1_000_000}
    (folder / "config.json").write_text(json.dumps(config | quick))


@contextmanager
def acting(living: LiveWorld) -> Iterator[None]:
    """Things happen for as long as the body runs."""
    is_over = threading.Event()

    def act() -> None:
        while not is_over.wait(0.02):
            living.acts(2)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(PATIENCE)


def until_true(workspace: Path, living: LiveWorld) -> None:
    truth, deadline = living.truth(), time.monotonic() + PATIENCE
    while (found := folded_events(workspace).content) != truth:
        assert time.monotonic() < deadline, "\n".join(differences(found, truth))
        time.sleep(0.1)


def judge(workspace: Path, living: LiveWorld) -> None:
    folded, truth = folded_events(workspace), living.truth()
    assert folded.wrong == []
    assert differences(folded.content, truth) == []
    assert differences(archived_texts(workspace), living.texts()) == []
