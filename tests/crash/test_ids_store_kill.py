"""SIGKILL for the queue workers of ids, wherever they are: each instance is stored exactly once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.crash.nursery import PATIENCE, nursery_of, size_of
from tests.support.ids.sets import (
    StoreSet,
    embedded_set,
    instances,
    messages,
    raids,
    served_set,
)

KILLS = int(os.environ.get("IDS_STORE_KILLS", "6"))  # 50 were measured; CI has to be done sooner.
PER_KILL = 25  # Instances published before each: enough for the steps until it.
FEW_STEPS = 14  # A batch of four takes four; most kills come before a worker has done many.
WORKERS = 2  # In each process.


@pytest.fixture(params=["embedded", "served"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSet:
    if request.param == "embedded":
        return embedded_set(tmp_path)
    return served_set(request.getfixturevalue("servers"))


def publish(where: StoreSet, raws: list[dict[str, Any]]) -> None:
    asyncio.run(where.publish(messages(raws + raws[::10])))


def wait_for(folder: Path, what: str, more: int) -> None:
    """Each time that it happens, a byte is added to a file of that name."""
    happened = partial(size_of, folder, what)
    target, deadline = happened() + more, time.monotonic() + PATIENCE
    while happened() < target:
        assert time.monotonic() < deadline, "it gets nowhere"
        time.sleep(0.001)


def faults(where: StoreSet, raws: list[dict[str, Any]]) -> dict[str, Any]:
    """Every figure that is not as if each report had been stored once."""
    expected = instances(raws)
    rows, reports = asyncio.run(where.contents()), asyncio.run(where.raw_rows())
    took_part = [(one, player) for one in expected for player in one.players]
    found = {
        "instances": sorted(row[0] for row in rows["instance"]),
        "taking part": sorted((row[0], row[1]) for row in rows["instance_player"]),
        "played": sum(int(row[2]) for row in rows["player_stats"]),
        "clears": sum(int(row[3]) for row in rows["player_stats"]),
        "seconds": sum(int(row[5]) for row in rows["player_stats"]),
        "weapons": len(rows["instance_weapon"]),
        "reports": [(number, json.loads(text)) for number, text in reports],
    }
    wanted = {
        "instances": [one.instance_id for one in expected],
        "taking part": sorted((one.instance_id, p.membership_id) for one, p in took_part),
        "played": len(took_part),
        "clears": sum(player.completed for _, player in took_part),
        "seconds": sum(player.time_played_seconds for _, player in took_part),
        "weapons": sum(len(c.weapons) for _, p in took_part for c in p.characters),
        "reports": [(one.instance_id, raw) for one, raw in zip(expected, raws, strict=True)],
    }
    return {name: found[name] for name in wanted if found[name] != wanted[name]}


@pytest.mark.slow
def test_each_instance_is_stored_once_however_often_the_workers_are_killed(
    where: StoreSet, tmp_path: Path
) -> None:
    raws, dice = raids(PER_KILL * KILLS), random.Random(7)
    where.save(tmp_path / "set.json")
    with nursery_of("ids_store_roles", tmp_path) as nursery:
        for kill in range(KILLS):
            publish(where, raws[kill * PER_KILL :][:PER_KILL])
            pid = nursery.start("storer")
            wait_for(tmp_path, "steps", dice.randint(1, FEW_STEPS))
            assert nursery.kill(pid), "it had ended by itself"
        assert nursery.wait(nursery.start("last")) == 0
    assert faults(where, raws) == {}


@pytest.mark.slow
def test_acking_before_storing_is_caught(tmp_path: Path) -> None:
    """The check above has teeth."""
    where, raws = embedded_set(tmp_path), raids(PER_KILL)
    where.save(tmp_path / "set.json")
    publish(where, raws)
    with nursery_of("ids_store_roles", tmp_path) as nursery:
        pid = nursery.start("eager")
        wait_for(tmp_path, "exposed", WORKERS)
        assert nursery.kill(pid)
        assert nursery.wait(nursery.start("last")) == 0
    assert "instances" in faults(where, raws)
