"""A crawl whose state is in Redis: the keys that others read, with their types and meanings."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from tests.support.program import trawlnet
from tests.support.repos.run import Crawled, Truth, archived, blocks_written, run_relay
from tests.support.servers import redis_server, require_package
from trawlnet.crawlers.errors import NotReady
from trawlnet.engine.control import Ending
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.sim.habits import Habit, Temper
from trawlnet.stores.errors import StateLost
from trawlnet.stores.redis.archive import read_archive_keys

redis = require_package("redis")


def text(members: set[bytes]) -> set[str]:
    return {member.decode() for member in members}


def test_the_keys_tell_what_the_spec_says(tmp_path: Path) -> None:
    async def main(url: str, client: redis.Redis) -> tuple[list[Crawled], Truth, list[int]]:
        world = await serve_atproto(3, accounts=100, hosts=4, habits=())
        dids = tmp_path / "dids"
        truth = Truth.of(world)
        dids.write_text("\n".join(sorted(truth.rows)))
        more = {"dids": str(dids), "redis_address": url, "page_size": 25}
        try:
            # More than there are DIDs to resolve: some of these tasks are repositories for certain.
            pieces = [await run_relay(world, tmp_path / "net", **more, max_tasks=150)]
            # Half-way: the cursor is a DID, and stands for pages that are in Redis.
            assert client.get("crawler:cursor").decode().removeprefix("file ") in truth.rows
            pieces.append(await run_relay(world, tmp_path / "net", **more))
            asked = [sum(world.served.turns.values())]
            pieces.append(await run_relay(world, tmp_path / "net", **more))
            asked.append(sum(world.served.turns.values()))
            return pieces, truth, asked
        finally:
            await world.close()

    with redis_server() as server:
        client = redis.Redis.from_url(server.url)
        pieces, truth, asked = asyncio.run(main(server.url, client))
        assert [piece.ending for piece in pieces] == [Ending.LIMIT, Ending.DONE, Ending.DONE]
        assert asked[0] == asked[1], "a rerun asks nothing at all"
        everyone = truth.archivable()
        assert archived(tmp_path / "net") == everyone
        assert client.type("crawler:completed") == b"set"
        completed = {key for key in text(client.smembers("crawler:completed")) if key[:3] == "did"}
        inactive = truth.with_status("deactivated", "takendown", "suspended", "deleted")
        assert completed == everyone.keys() | inactive.keys()
        for reason in ("deactivated", "takendown", "suspended"):
            assert client.type(f"crawler:failed:{reason}") == b"set"
            failed = text(client.smembers(f"crawler:failed:{reason}"))
            assert failed == truth.with_status(reason).keys() != set()
        assert client.type("crawler:segment_num") == b"string"
        assert client.get("crawler:segment_num") == b"2", "each run goes on in a segment of its own"
        assert client.type("crawler:stats") == b"hash"
        stats = client.hgetall("crawler:stats")
        assert stats.keys() == {b"total_crawled", b"bytes_written"}
        assert (
            int(stats[b"total_crawled"])
            == len(everyone)
            == blocks_written(tmp_path / "net").total()
        )
        assert int(stats[b"bytes_written"]) > 1000
        assert client.type("crawler:cursor") == b"string"

        elsewhere = ("-w", tmp_path / "another machine", "--redis-address", server.url, "--json")
        (row,) = trawlnet("repos", "status", *elsewhere).rows
        assert row["total_crawled"] == len(everyone) and row["segment_num"] == 2
        assert row["open"] == 0 and row["settled"]["deactivated"] > 0
        failed = {row["key"] for row in trawlnet("repos", "failures", *elsewhere).rows}
        gone = truth.with_status("tombstoned", "junk")
        assert failed == inactive.keys() | gone.keys()
        assert not (tmp_path / "another machine").exists()


def test_an_update_may_visit_what_is_completed(tmp_path: Path) -> None:
    async def main(url: str) -> tuple[Crawled, int]:
        world = await serve_atproto(3, accounts=60, hosts=4, habits=())
        try:
            await run_relay(world, tmp_path, redis_address=url)
            # Nothing changed, so that listing is enough; asking one by one finds the same.
            await run_relay(world, tmp_path, redis_address=url, update=True)
            dids = tmp_path / "dids"
            dids.write_text("\n".join(Truth.of(world).archivable(on_relay=True)))
            more = {"redis_address": url, "update": True, "dids": str(dids)}
            return await run_relay(world, tmp_path, **more), len(dids.read_text().split())
        finally:
            await world.close()

    with redis_server() as server:
        crawled, repos = asyncio.run(main(server.url))
    assert crawled.tally["not_modified"] == repos > 0
    assert set(blocks_written(tmp_path).values()) == {1}


def test_a_redis_that_was_emptied_is_no_crawl_that_is_done(tmp_path: Path) -> None:
    """It ends with an error, and the next run fetches what is not archived, once."""

    async def main(url: str) -> Truth:
        world = await serve_atproto(3, accounts=100, hosts=4, habits=())
        more = {"redis_address": url, "workers": 4}
        try:
            await run_relay(world, tmp_path, **more, max_tasks=90)
            before = archived(tmp_path)
            crawling = asyncio.create_task(run_relay(world, tmp_path, **more))
            async with asyncio.timeout(120):
                while blocks_written(tmp_path).total() <= len(before):
                    await asyncio.sleep(0.01)
            redis.Redis.from_url(url).flushall()
            with pytest.raises(StateLost):
                await crawling
            assert before.keys() <= archived(tmp_path).keys()
            await run_relay(world, tmp_path, **more)
            return Truth.of(world)
        finally:
            await world.close()

    with redis_server() as server:
        truth = asyncio.run(main(server.url))
    assert archived(tmp_path) == truth.archivable(on_relay=True)
    assert set(blocks_written(tmp_path).values()) == {1}


def test_two_workspaces_do_not_share_one_crawl(tmp_path: Path) -> None:
    async def main(url: str) -> Truth:
        world = await serve_atproto(3, accounts=60, hosts=3, habits=())
        first, moved = tmp_path / "first", tmp_path / "moved"
        try:
            await run_relay(world, first, redis_address=url, max_tasks=30)
            asked = sum(world.served.turns.values())
            with pytest.raises(NotReady, match="another workspace") as refused:
                await run_relay(world, tmp_path / "second", redis_address=url)
            assert str(first) in refused.value.message
            assert "redis://HOST:PORT/1" in refused.value.hint and "reset" in refused.value.hint
            assert sum(world.served.turns.values()) == asked
            # Another database is another crawl; a workspace that was moved is still the same.
            await run_relay(world, tmp_path / "second", redis_address=f"{url}/1", max_tasks=5)
            first.rename(moved)
            await run_relay(world, moved, redis_address=url)
            return Truth.of(world)
        finally:
            await world.close()

    with redis_server() as server:
        truth = asyncio.run(main(server.url.removesuffix("/0")))
    assert archived(tmp_path / "moved") == truth.archivable(on_relay=True)


@pytest.mark.parametrize("in_redis", [True, False])
def test_what_ran_out_of_tries_is_asked_again_by_a_later_crawl(
    in_redis: bool, tmp_path: Path
) -> None:
    """It is on record meanwhile, and not among what is completed. A new sweep also lists."""
    temper = Temper(fails=2, fails_of=5)

    async def main(url: str) -> tuple[list[Crawled], Truth, set[str]]:
        world = await serve_atproto(
            3, accounts=60, hosts=4, habits={Habit.FLAPPING: 1}, temper=temper
        )
        # One try for each: two of five requests to that host fail for good.
        more = {"attempts": 1, "block_after": 100} | ({"redis_address": url} if in_redis else {})
        truth, completed = Truth.of(world), set[str]()
        sweeps: list[Crawled] = []
        try:
            everyone = truth.archivable(on_relay=True)
            while not sweeps or (len(sweeps) < 12 and archived(tmp_path) != everyone):
                sweeps.append(await run_relay(world, tmp_path, **more))
                if in_redis and len(sweeps) == 1:
                    client = redis.Redis.from_url(url)
                    completed = text(client.smembers("crawler:completed"))
            return sweeps, truth, completed
        finally:
            await world.close()

    with redis_server() as server:
        sweeps, truth, completed = asyncio.run(main(server.url))
    assert archived(tmp_path) == truth.archivable(on_relay=True)
    # A listing and a task that was put back may both visit an account.
    assert len(sweeps) > 1 and set(blocks_written(tmp_path).values()) == {1}
    passing = {key for key, why in sweeps[0].reasons.items() if why in ("unavailable", "truncated")}
    assert passing and not passing & completed
    for sweep in sweeps:
        words = sweep.counts.settled
        failed = sum(count for reason, count in words.items() if not reason.success)
        assert len(sweep.failures) == failed
    if in_redis:
        first = sweeps[0].counts
        assert first.known == sum(first.settled.values()), "who failed is known, and once"


def test_another_machine_sees_that_the_crawl_runs(tmp_path: Path) -> None:
    async def main(url: str) -> tuple[str, int]:
        world = await serve_atproto(3, accounts=60, hosts=3, habits=(), latency=0.02)
        elsewhere = ("-w", tmp_path / "another machine", "--redis-address", url)
        try:
            crawling = asyncio.create_task(run_relay(world, tmp_path / "net", redis_address=url))
            async with asyncio.timeout(120):
                while (await read_archive_keys(url))["running_on"] is None:
                    await asyncio.sleep(0.01)
            # While it is being asked, nobody is served: it does not end meanwhile.
            told = trawlnet("repos", "status", *elsewhere).out
            await crawling
            assert (await read_archive_keys(url))["running_on"] is None
            return told, len(Truth.of(world).archivable(on_relay=True))
        finally:
            await world.close()

    with redis_server() as server:
        told, repos = asyncio.run(main(server.url))
        assert f"running on {socket.gethostname()}, pid {os.getpid()}" in told
        (row,) = trawlnet("repos", "status", "-w", tmp_path, "--store", server.url, "--json").rows
        assert row["total_crawled"] == repos and row["running_on"] is None
