"""A crawl shared by shards: everything once, and each lane with one owner at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.fleet.run import Tasks, crawl_with, dids_in_manifest, fleet_config, job_of
from tests.support.repos.run import Truth
from tests.support.servers import redis_server
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.shared import open_shard
from trawlnet.crawlers.share import Opened, Share
from trawlnet.engine.control import Control
from trawlnet.engine.partition import BUCKETS, Moves, bucket_of, share_of
from trawlnet.fleet import balance
from trawlnet.fleet import supervise as supervising
from trawlnet.fleet.supervise import Seen, is_at_work
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.atproto.world import serve_atproto
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word

PATIENCE = 150.0  # Seconds; only a test that fails waits that long.
# Nobody dies here: one that gets no processor for a while must not be replaced.
LONGER = {"shard_timeout": 6.0}


def test_two_shards_archive_everything_once(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        world = await serve_atproto(3, accounts=120, hosts=8, habits=())
        try:
            archive = str(tmp_path / "archive")
            config = fleet_config(world.ready_line(), url, archive, **LONGER)
            runtime = Tasks(job_of(config, tmp_path))
            word = await asyncio.wait_for(crawl_with(config, runtime), PATIENCE)
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


@pytest.mark.slow
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
            config = fleet_config(world.ready_line(), url, archive, workers=2, **LONGER)
            runtime = Tasks(job_of(config, tmp_path))
            crawling = crawl_with(config, runtime, show=lambda seen: moves.add(seen.plan.moved))
            assert await asyncio.wait_for(crawling, PATIENCE) is Word.DONE
            everyone = Truth.of(world).archivable(on_relay=True)
            found = dids_in_manifest(tmp_path / "archive")
            assert found.keys() == everyone.keys() and set(found.values()) == {1}
        finally:
            await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))
    assert len(moves) > 1, "nothing was moved"


@pytest.mark.slow
def test_a_shard_whose_lanes_stay_goes_on_while_others_exchange_theirs(tmp_path: Path) -> None:
    tokens: dict[int, dict[int, str]] = {}  # By version of the plan, by shard.

    async def main(url: str) -> None:
        world = await serve_atproto(3, accounts=90, hosts=8, habits=(), latency=0.05)
        keys = await FleetKeys.open(url)
        moving: list[asyncio.Task[object]] = []
        moved = ((min(share_of(0, 3)), 1),)

        def show(seen: Seen) -> None:
            if is_at_work(seen):
                told = {shard: row["token"] for shard, row in seen.shards.items()}
                tokens.setdefault(seen.plan.version, told)
                if not moving:
                    moving.append(asyncio.create_task(keys.move(seen.plan, moved)))

        try:
            archive = str(tmp_path / "archive")
            config = fleet_config(world.ready_line(), url, archive, workers=1, **LONGER)
            crawling = crawl_with(config, Tasks(job_of(config, tmp_path)), show=show, shards=3)
            assert await asyncio.wait_for(crawling, PATIENCE) is Word.DONE
            found = dids_in_manifest(tmp_path / "archive")
            assert found == Counter(Truth.of(world).archivable(on_relay=True).keys())
        finally:
            await keys.close()
            await world.close()

    with redis_server() as server:
        asyncio.run(main(server.url))
    before, after = list(tokens.values())[:2]
    assert [before[shard] == after[shard] for shard in range(3)] == [False, False, True]


def share(number: int, folder: Path) -> Share:
    scratch = folder / f"scratch{number}"
    scratch.mkdir()

    async def may_put() -> None:
        pass

    every = frozenset(range(BUCKETS))
    return Share(number, 2, 1, f"s{number:03d}", every, scratch, lambda: 0.0, may_put)


def test_a_lane_keeps_its_pace_when_it_changes_its_owner(tmp_path: Path) -> None:
    """The new owner has counted nothing itself; one that nobody has counted is taken for small."""
    accounts = {"large.example": 1500, "middling.example": 500, "small.example": 5}
    named = {lane: [f"did:plc:{n}" for n in range(count)] for lane, count in accounts.items()}

    async def main(url: str) -> None:
        config = ReposConfig(
            store=url,
            archive=str(tmp_path / "a"),
            relay=("https://r.example",),
            contact="a@b.example",
        )
        clock = SystemClock()
        for number in (1, 2):
            opening = open_shard(
                config, share(number, tmp_path), clock, CrawlMetrics("repos", clock)
            )
            async with opening as opened:
                if number == 1:
                    await opened.parts.handler.rates.add(named)
                gate = opened.parts.gate
                rates = [gate.manners(lane).rate for lane in (*accounts, "unknown.example")]
                assert rates == [10.0, 5.0, 2.0, 2.0], f"shard {number}"

    with redis_server() as server:
        asyncio.run(main(server.url))


def test_shards_count_the_accounts_of_a_lane_together(tmp_path: Path) -> None:
    """Who lists a host and who looks its accounts up are two: neither count replaces the other,
    and what both have seen counts once. The owner of the lane hears what others have found."""

    async def main(url: str) -> None:
        config = ReposConfig(
            store=url,
            archive=str(tmp_path / "a"),
            relay=("https://r.example",),
            contact="a@b.example",
        )
        clock = SystemClock()
        owner, other = share(1, tmp_path), replace(share(2, tmp_path), buckets=frozenset())
        lister = open_shard(config, owner, clock, CrawlMetrics("repos", clock))
        finder = open_shard(config, other, clock, CrawlMetrics("repos", clock))
        async with lister as ours, finder as theirs:
            await ours.parts.store.ask("HSET", "fences", bucket_of("pds.example"), owner.token)
            gate = ours.parts.gate

            async def found(opened: Opened, first: int, last: int) -> None:
                dids = [f"did:plc:{n}" for n in range(first, last)]
                await opened.parts.handler.rates.add({"pds.example": dids})

            await found(ours, 0, 60)
            await found(theirs, 0, 60)
            assert gate.manners("pds.example").rate == 2.0, "each counts once"
            await found(theirs, 60, 100)
            heard = asyncio.create_task(ours.parts.companions[0](Control(1)))
            async with asyncio.timeout(PATIENCE):
                while gate.manners("pds.example").rate == 2.0:
                    await asyncio.sleep(0.1)
            heard.cancel()
            assert gate.manners("pds.example").rate == 5.0
            await found(ours, 0, 1)
            assert gate.manners("pds.example").rate == 5.0, "a lesser count does not replace it"

    with redis_server() as server:
        asyncio.run(main(server.url))
