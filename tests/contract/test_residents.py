"""How many accounts a lane has, as shards count them together in Redis."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.servers import RedisServer
from trawlnet.crawlers.repos.accounts.residents import ENOUGH
from trawlnet.crawlers.repos.shared import SharedResidents
from trawlnet.crawlers.share import Share
from trawlnet.engine.partition import bucket_of
from trawlnet.net.clock import SystemClock
from trawlnet.stores.errors import Fenced
from trawlnet.stores.fence import Fence
from trawlnet.stores.redis.work.store import RedisStore

LANE = "pds.example"


def test_accounts_count_once_and_the_owner_of_the_lane_hears_of_them(
    redis: RedisServer, request: pytest.FixtureRequest
) -> None:
    prefix = f"{request.node.name}:"

    async def main() -> None:
        mine = frozenset({bucket_of(LANE)})
        owner = await RedisStore.open(redis.url, prefix=prefix, fence=Fence("s001-1", mine))
        other = await RedisStore.open(redis.url, prefix=prefix, fence=Fence("s002-2"))
        await owner.ask("HSET", "fences", bucket_of(LANE), "s001-1")
        assert await owner.run("reside", 5, [[LANE, ["a", "b"]], ["else.example", ["a"]]]) == [2, 1]
        assert await owner.ask("SMEMBERS", "resized:s001-1") == set(), "it knows itself"
        assert await other.run("reside", 5, [[LANE, ["b", "c"]]]) == [3]
        assert await owner.ask("SMEMBERS", "resized:s001-1") == {LANE.encode()}
        assert await owner.ask("HGET", "accounts", LANE) == b"3"
        # As many as matter, and no more.
        assert await other.run("reside", 5, [[LANE, ["d", "e"]]]) == [5]
        assert await other.run("reside", 5, [[LANE, ["f"]]]) == [5]
        with pytest.raises(Fenced):
            await other.run("vacate", LANE)
        assert await owner.ask("HGET", "accounts", LANE) == b"5"
        await owner.run("vacate", LANE)
        assert await owner.ask("HGET", "accounts", LANE) is None
        assert await owner.run("reside", 5, [[LANE, ["a"]]]) == [1]
        await owner.close()
        await other.close()

    asyncio.run(main())


def test_a_page_that_names_nobody_changes_no_count(
    redis: RedisServer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The last page of a listing often does; its host would pass for one of a thousand accounts."""

    async def may_put() -> None: ...

    async def main() -> None:
        mine = frozenset({bucket_of(LANE)})
        share = Share(1, 2, 1, "s001-1", mine, tmp_path, lambda: 0.0, may_put)
        store = await RedisStore.open(
            redis.url, prefix=f"{request.node.name}:", fence=Fence("s001-1", mine)
        )
        residents = SharedResidents(store, share, SystemClock())
        assert await residents.add({LANE: [], "other": ["a"]}) == {LANE: 0, "other": 1}
        assert await residents.add({LANE: ["a", "b"]}) == {LANE: 2}
        assert await residents.add({LANE: []}) == {LANE: 2}
        many = [str(n) for n in range(ENOUGH - 2)]
        assert await residents.add({LANE: many}) == {LANE: ENOUGH}
        assert await residents.add({LANE: []}) == {LANE: ENOUGH}
        await store.close()

    asyncio.run(main())
