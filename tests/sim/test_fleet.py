"""A crawl shared by shards: everything once, and each lane with one owner at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fleet_run import Tasks, crawl_with, dids_in_manifest, fleet_config, job_of
from repos_run import Truth
from servers import redis_server
from trawlnet.engine.partition import Moves
from trawlnet.fleet import balance
from trawlnet.fleet import supervise as supervising
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.store.redis_fleet import Word


def test_two_shards_archive_everything_once(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        world = await serve_atproto(3, accounts=120, hosts=8, habits=())
        try:
            config = fleet_config(world.ready_line(), url, str(tmp_path / "archive"))
            runtime = Tasks(job_of(config, tmp_path))
            word = await asyncio.wait_for(crawl_with(config, runtime), 60)
            assert word is Word.DONE
            everyone = Truth.of(world).archivable(on_relay=True)
            found = dids_in_manifest(tmp_path / "archive")
            assert found.keys() == everyone.keys()
            assert set(found.values()) == {1}
            assert list((tmp_path / "archive" / "parts").iterdir()) == []
        finally:
            await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))


def test_lanes_move_to_a_shard_that_has_less_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance, "WORTH", 0.0)
    monkeypatch.setattr(supervising, "_WEIGH_EVERY", 0.5)
    moves: set[Moves] = set()

    async def main(url: str) -> None:
        world = await serve_atproto(3, accounts=150, hosts=8, habits=(), latency=0.05)
        try:
            archive = str(tmp_path / "archive")
            config = fleet_config(world.ready_line(), url, archive, workers=2)
            runtime = Tasks(job_of(config, tmp_path))
            crawling = crawl_with(config, runtime, show=lambda seen: moves.add(seen.plan.moved))
            assert await asyncio.wait_for(crawling, 60) is Word.DONE
            everyone = Truth.of(world).archivable(on_relay=True)
            found = dids_in_manifest(tmp_path / "archive")
            assert found.keys() == everyone.keys() and set(found.values()) == {1}
        finally:
            await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))
    assert len(moves) > 1, "nothing was moved"
