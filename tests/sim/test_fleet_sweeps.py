"""A new sweep of a fleet begins like one on a single machine."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

from tests.support.servers import redis_server
from trawlnet.cli.common.workspace import Workspace
from trawlnet.cli.repos.fleet import shards_of
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.work import RepoVisit, read_task
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Page
from trawlnet.fleet.supervise import begin
from trawlnet.net.clock import SystemClock
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore

DIDS = ["did:plc:" + letter * 24 for letter in "abc"]
DEAD = "https://dead.example"


def test_accounts_on_a_dead_host_are_looked_for_where_they_live_now(tmp_path: Path) -> None:
    """One ran out of tries, the others wait behind a lane that is blocked; with no mirror, the
    directory is asked where each of them is."""

    async def main(url: str) -> None:
        clock = SystemClock()
        config = ReposConfig(
            relay=("https://relay.example",),
            plc_url="https://plc.example",
            redis_address=url,
            archive=str(tmp_path / "archive"),
            contact="tests@example.org",
        )
        keys, store = await FleetKeys.open(url), await RedisStore.open(url)
        try:
            tasks = [RepoVisit(did, DEAD).task() for did in DIDS]
            await store.feed(Page(tasks, "c"))
            await store.settle([Receipt(tasks[0], Reason.TIMEOUT, at=clock.now())])
            await store.hold("dead.example", math.inf)
            await begin(keys, 1)
            await keys.end(Word.DONE)
            await shards_of(config, Workspace(tmp_path, "repos"), {}).open(keys, store, clock)
            lanes = {work.lane: work.open for work in await store.lanes(None, 9)}
            assert lanes == {"plc.example": 3}
            leased = await store.lease({"plc.example": 9}, clock.now(), 60.0)
            assert {read_task(task) for task in leased.tasks} == {
                RepoVisit(did, DEAD) for did in DIDS
            }
        finally:
            await store.close()
            await keys.close()

    with redis_server() as server:
        asyncio.run(main(server.url))
