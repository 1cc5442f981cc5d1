"""A fleet's limits and its number of shards are those of the whole crawl, whoever is at work."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.support.fleet.run import Tasks, dids_in_manifest, fleet_config, job_of
from tests.support.net.answering import answering
from tests.support.repos.run import Truth
from tests.support.servers import redis_server
from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.fleet.command import crawl_with_shards
from trawlnet.cli.repos.fleet import shards_of
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.fleet.supervise import begin
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore

PATIENCE = 150.0  # Seconds; only a test that fails waits that long.


async def commanded_crawl(config: ReposConfig, folder: Path, runtime: Tasks) -> int:
    """The command itself, with shards that are no processes; gives its exit code."""
    workspace = Workspace(folder, "repos")
    return await asyncio.wait_for(
        crawl_with_shards(shards_of(config, workspace, {}), runtime, as_json=False), PATIENCE
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit", [{"max_tasks": 30}, {"max_seconds": 1.5}], ids=str)
def test_a_limit_ends_all_shards_and_the_next_command_goes_on(
    limit: dict[str, float], tmp_path: Path
) -> None:
    async def main(url: str) -> None:
        world = await serve_atproto(3, accounts=120, hosts=6, habits=(), latency=0.05)
        keys = await FleetKeys.open(url)
        try:
            archive = tmp_path / "archive"
            config = fleet_config(world.ready_line(), url, str(archive), workers=2)
            everyone = Counter(Truth.of(world).archivable(on_relay=True).keys())
            for more, code in ((limit, 4), ({"workers": 8}, 0)):
                chosen = config.model_copy(update=more)
                runtime = Tasks(job_of(chosen, tmp_path))
                assert await commanded_crawl(chosen, tmp_path, runtime) == code
                assert (await keys.plan()).run == 1, "the same sweep goes on"
                found = dids_in_manifest(archive) if (archive / "manifest").exists() else Counter()
                assert (found == everyone) is (code == 0)
        finally:
            await keys.close()
            await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))


def test_a_fleet_whose_relay_refuses_its_listing_is_not_done(tmp_path: Path) -> None:
    with answering((404, b"")) as relay, redis_server() as server:
        nobody = {"plc": relay, "relay": relay}
        config = fleet_config(nobody, server.url, str(tmp_path / "archive"))
        runtime = Tasks(job_of(config, tmp_path))
        code = asyncio.run(commanded_crawl(config, tmp_path, runtime))
        assert code == Exit.GIVEN_UP


def test_shards_heed_a_limit_of_tasks_among_them(tmp_path: Path) -> None:
    """Not so many each; some more are started until all of them have heard."""

    async def main(url: str) -> None:
        world = await serve_atproto(3, accounts=200, hosts=6, habits=(), latency=0.2)
        store = await RedisStore.open(url)
        try:
            given = {"workers": 1, "max_tasks": 12, "shard_timeout": 1.0}
            config = fleet_config(world.ready_line(), url, str(tmp_path / "archive"), **given)
            runtime = Tasks(job_of(config, tmp_path))
            assert await commanded_crawl(config, tmp_path, runtime) == 4
            tries = sum((await store.counts()).attempts.values())
            assert 12 <= tries < 200, "a worker at 0.2 s each starts few until it hears"
        finally:
            await store.close()
            await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))


def test_the_same_command_again_keeps_the_number_that_a_fleet_was_scaled_to() -> None:
    async def main(url: str) -> None:
        keys = await FleetKeys.open(url)
        assert (await begin(keys, 2)).shards == 2
        await keys.change(shards=5)
        for word in (Word.RUN, Word.DRAIN, Word.STOP, Word.LIMIT):
            await keys.change(word=word)
            assert (await begin(keys, 2)).shards == 5, "as if it had been cut short"
        assert (await begin(keys, 3)).shards == 3, "another number was asked for"
        await keys.change(shards=5)
        await keys.end(Word.DONE)
        assert (await begin(keys, 3)).shards == 3, "a new crawl begins as it is told to"
        await keys.close()

    with redis_server() as server:
        asyncio.run(main(server.url))


def test_what_somebody_told_a_fleet_stands() -> None:
    async def main(url: str) -> None:
        keys = await FleetKeys.open(url)
        await begin(keys, 1)
        told = await keys.change(word=Word.DRAIN)
        assert await keys.end(Word.DONE) == told, "neither another word nor another version"
        await keys.close()

    with redis_server() as server:
        asyncio.run(main(server.url))
