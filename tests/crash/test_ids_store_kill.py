"""SIGKILL for the queue workers of ids, wherever they are: each instance is stored exactly once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from nursery import nursery_of

from ids_sets import (
    StoreSet,
    embedded_set,
    instances,
    messages,
    raids,
    served_set,
)

KILLS = int(os.environ.get("IDS_STORE_KILLS", "6"))  # 50 were measured; CI has to be done sooner.
PER_KILL = 25  # Instances published for each: more than a worker stores before it is killed.
FEW_STEPS = 14  # A batch takes four; most kills come before a worker has done many.


@pytest.fixture(params=["embedded", "served"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSet:
    if request.param == "embedded":
        return embedded_set(tmp_path)
    return served_set(request.getfixturevalue("servers"))


def torture(where: StoreSet, folder: Path, role: str, kills: int, seed: int) -> dict[str, Any]:
    """Publish, and kill the workers again and again, each after some steps of its own. Returns
    what is wrong with the stores after the last one has emptied the queue."""
    raws = raids(PER_KILL * kills)
    asyncio.run(where.publish(messages(raws + raws[::10])))
    where.save(folder / "set.json")
    dice = random.Random(seed)
    with nursery_of("ids_store_roles", folder) as nursery:
        for _ in range(kills):
            pid = nursery.start(role)
            wait_for_steps(folder, dice.randint(1, FEW_STEPS))
            assert nursery.kill(pid), "it had ended by itself"
        assert nursery.wait(nursery.start("last")) == 0
    return faults(where, raws)


def wait_for_steps(folder: Path, steps: int) -> None:
    target, deadline = taken(folder) + steps, time.monotonic() + 60
    while taken(folder) < target:
        assert time.monotonic() < deadline, "it gets nowhere"
        time.sleep(0.001)


def taken(folder: Path) -> int:
    file = folder / "steps"
    return file.stat().st_size if file.exists() else 0


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
    assert torture(where, tmp_path, "storer", KILLS, seed=7) == {}


@pytest.mark.slow
def test_acking_before_storing_is_caught(tmp_path: Path) -> None:
    """The check above has teeth."""
    assert "instances" in torture(embedded_set(tmp_path), tmp_path, "eager", 2, seed=8)
