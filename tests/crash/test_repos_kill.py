"""SIGKILL at random instants of a repos crawl: the archive stays sound, and nothing is lost."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nursery import nursery_of

from program import started, trawlnet, wait_until
from repos_run import FAST, Truth, archived, blocks_written
from servers import redis_server, require_package

KILLS = 100
RPS = 8.0  # To each of eight hosts: some twenty seconds of work.


@pytest.fixture
def network(tmp_path: Path) -> Iterator[dict[str, Any]]:
    arguments = ("sim", "atproto", "--seed", 21, "--scale", 3, "--healthy")
    with started(*arguments, folder=tmp_path / "sim") as world:
        wait_until(lambda: world.out.endswith("\n"), "the ready line")
        yield json.loads(world.out)


@pytest.mark.slow
def test_every_repository_is_there_after_a_hundred_kills(
    network: dict[str, Any], tmp_path: Path
) -> None:
    kill_and_count(network, tmp_path, KILLS, {})


@pytest.mark.slow
def test_nor_is_anything_lost_when_the_state_is_in_redis(
    network: dict[str, Any], tmp_path: Path
) -> None:
    require_package("redis")
    with redis_server() as server:
        kill_and_count(network, tmp_path, KILLS // 4, {"redis_address": server.url})


def kill_and_count(
    network: dict[str, Any], tmp_path: Path, kills: int, more: dict[str, Any]
) -> None:
    config = FAST | {"relay": [network["relay"]], "plc_url": network["plc"]} | more
    slow = {"small_pds_rps": RPS, "default_pds_rps": RPS, "segment_size": 20_000}
    (tmp_path / "config.json").write_text(json.dumps(config | slow))
    dice, landed = random.Random(5), 0
    with nursery_of("repos_roles", tmp_path) as nursery:
        for _ in range(kills):
            pid = nursery.start("crawl")
            time.sleep(dice.uniform(0.03, 0.4))
            landed += nursery.kill(pid)
        assert landed >= kills * 0.9, "most kills must hit a crawl at work"
        # A segment that a kill left open is found and gone on with.
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert nursery.wait(nursery.start("crawl")) == 0

    truth = Truth.read(Path(network["manifest"]))
    expected = truth.archivable(on_relay=True)
    assert len(expected) > 400
    assert archived(tmp_path / "net") == expected
    written = blocks_written(tmp_path / "net")
    again = written.total() - len(written)
    assert again < 8 * kills, "only what was written and not settled is written twice"

    ran = trawlnet("repos", "replay", "-w", tmp_path / "net", "--json")
    assert ran.code == 0, ran.err
    sql = "SELECT repo, collection, count() AS n FROM repo_records GROUP BY repo, collection"
    rows = trawlnet("repos", "query", "-w", tmp_path / "net", sql, "--json").rows
    replayed = {(row["repo"], row["collection"]): int(row["n"]) for row in rows}
    assert replayed == {
        (did, name): count for did, records in expected.items() for name, count in records.items()
    }
