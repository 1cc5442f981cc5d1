"""The schedule of PDSes as Ray actors, one of which is killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.fleet.run import world_process
from tests.support.servers import postgres_server, require_package
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.fleet.pds import keep, opened_watch
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.ray_token import LOCAL
from trawlnet.fleet.shard import ShardJob
from trawlnet.net.clock import SystemClock
from trawlnet.stores.redis.fleet.shards import Word

require_package("ray")
PATIENCE = 200.0  # Seconds; only a test that fails waits that long.


def test_ray_starts_a_process_again_that_was_killed_and_every_pds_is_scanned(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[int] = []

    def kill_one(claims: dict[str, int]) -> None:
        for owner in claims:
            if not killed and "/" in owner:
                killed.append(int(owner.rpartition(" ")[2].split(":")[1]))
                os.kill(killed[0], signal.SIGKILL)

    async def main(config: PdsConfig, runtime: Any) -> Word:
        opened = opened_watch(config, tmp_path, runtime, SystemClock(), kill_one)
        async with opened as watch:
            return await asyncio.wait_for(keep(watch, asyncio.Event()), PATIENCE)

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with postgres_server() as postgres, world_process(4, 12, 3, tmp_path / "log") as world:
        config = PdsConfig(
            registry=postgres.url,
            once=True,
            collections=("app.bsky.feed.post",),
            allow_private_hosts=True,
            relay=(world["relay"],),
            plc_url=world["plc"],
            requests_per_minute=300,
            scan_timeout=8.0,
            claim_timeout=4.0,
        )
        scratch = tmp_path / "net" / "state" / "pds" / "fleet"
        given = config.model_dump(mode="json")
        job = ShardJob(0, "pds", given, 4.0, str(scratch))
        with ray_runtime(LOCAL, job) as runtime:
            assert asyncio.run(main(config, runtime)) is Word.DONE
        with psycopg.connect(postgres.url) as connection:
            found = connection.execute("SELECT status FROM pds_registry").fetchall()
    assert killed
    assert found == [("active",)] * 3
    assert not (tmp_path / "home" / ".ray").exists(), "a token that the next cluster would find"
