"""A crawl whose state is in Redis: the keys that others read, with their types and meanings."""

from __future__ import annotations

import asyncio
from pathlib import Path

from program import trawlnet
from repos_run import Crawled, Truth, archived, blocks_written, run_relay
from servers import redis_server, require_package
from trawlnet.engine.control import Ending
from trawlnet.sim.atproto.world import serve_atproto

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
