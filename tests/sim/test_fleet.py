"""A crawl shared by shards: everything once, and each lane with one owner at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fleet_run import Tasks, crawl_with, dids_in_manifest, fleet_config, job_of
from repos_run import Truth
from servers import redis_server
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
