"""SIGKILL at random instants of a repos crawl: the archive stays sound, and nothing is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.crash.nursery import nursery_of, size_of
from tests.support.long import times
from tests.support.program import trawlnet
from tests.support.repos.run import FAST, Truth, archived, blocks_written
from tests.support.servers import redis_server, require_package
from tests.support.world_thread import in_thread
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto

KILLS = times(8, 100)
RPS = 8.0  # To each of eight hosts: some twenty seconds of work.
MOST_BETWEEN = 6_000  # Bytes of the archive from a start to its kill.


@pytest.fixture
def network(tmp_path: Path) -> Iterator[AtprotoWorld]:
    with in_thread(serve_atproto(21, 3, manifest=tmp_path / "m.json", habits=())) as world:
        yield world


@pytest.mark.slow
def test_every_repository_is_there_after_many_kills(network: AtprotoWorld, tmp_path: Path) -> None:
    kill_and_count(network, tmp_path, KILLS, {})


@pytest.mark.slow
def test_nor_is_anything_lost_when_the_state_is_in_redis(
    network: AtprotoWorld, tmp_path: Path
) -> None:
    require_package("redis")
    with redis_server() as server:
        kill_and_count(network, tmp_path, KILLS // 4, {"redis_address": server.url})


def kill_and_count(network: AtprotoWorld, tmp_path: Path, kills: int, more: dict[str, Any]) -> None:
    config = FAST | {"relay": [network.relay], "plc_url": network.plc} | more
    slow = {"small_pds_rps": RPS, "default_pds_rps": RPS, "segment_size": 20_000}
    (tmp_path / "config.json").write_text(json.dumps(config | slow))
    dice, landed = random.Random(5), 0
    with nursery_of("repos_roles", tmp_path) as nursery:
        written = partial(size_of, tmp_path / "net" / "archive", "*.rca")
        for _ in range(kills):
            landed += nursery.kill_at_any_instant("crawl", written, dice, MOST_BETWEEN)
        assert landed >= kills * 0.9, "most kills must hit a crawl at work"
        # A segment that a kill left open is found and gone on with.
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert nursery.wait(nursery.start("crawl")) == 0

    expected = Truth.of(network).archivable(on_relay=True)
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
