"""`trawlnet fleet`: looked at and steered from anywhere, by its Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program import at_once, trawlnet
from tests.support.servers import RedisServer, redis_server
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.fleet.supervise import begin
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.work.store import RedisStore


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


async def _plan(url: str, shards: int = 0) -> FleetPlan:
    keys = await FleetKeys.open(url)
    try:
        return await begin(keys, shards) if shards else await keys.plan()
    finally:
        await keys.close()


async def _paused(url: str) -> bool:
    keys = await FleetKeys.open(url)
    try:
        return (await keys.window.wishes()).paused
    finally:
        await keys.close()


def test_a_fleet_is_looked_at_scaled_and_drained(redis: RedisServer) -> None:
    where = ("--store", redis.url, "--json")
    idle = trawlnet("fleet", "scale", 4, *where)
    assert idle.code == 1 and idle.error["error"] == "no fleet is running there"
    assert trawlnet("fleet", "pause", *where).code == 1
    first = asyncio.run(_plan(redis.url, shards=2))
    (row,) = trawlnet("fleet", "status", *where).rows
    assert row["plan"] == {"shards": 2, "word": "run", "run": 1} and row["shards"] == []
    (told,) = trawlnet("fleet", "scale", 4, *where).rows
    assert told == {"shards": 4, "word": "run", "version": first.version + 1}
    assert trawlnet("fleet", "pause", *where).rows == [{"paused": True}]
    assert asyncio.run(_paused(redis.url))
    assert trawlnet("fleet", "resume", *where).rows == [{"paused": False}]
    assert not asyncio.run(_paused(redis.url))
    assert trawlnet("fleet", "drain", "--store", redis.url).code == 0
    assert asyncio.run(_plan(redis.url)).word is Word.DRAIN
    again = asyncio.run(_plan(redis.url, shards=3))
    assert (again.word, again.run, again.shards) == (Word.RUN, 1, 3), "it goes on, it is not new"
    assert trawlnet("fleet", "stop", *where).rows[0]["word"] == "stop"


@pytest.mark.parametrize("words", [("status",), ("scale", 2), ("drain", "--ids")])
def test_a_fleet_without_a_redis_is_asked_for_one(
    words: tuple[object, ...], tmp_path: Path
) -> None:
    ran = trawlnet("fleet", *words, "-w", tmp_path, "--json")
    assert ran.code == 2 and "--store" in ran.error["hint"]


async def _fail_some(url: str) -> None:
    store = await RedisStore.open(url)
    try:
        tasks = [Task(f"did:plc:{name}", "pds.example") for name in "abc"]
        await store.feed(Page(tasks, "end"))
        await store.lease({"pds.example": 3}, 1.0, 60.0)
        await store.settle([Receipt(task, Reason.TIMEOUT, at=1.0) for task in tasks])
    finally:
        await store.close()


@pytest.mark.parametrize("crawler", ["repos", "web"])
def test_a_crawl_is_looked_at_and_failures_put_back_from_any_machine(
    crawler: str, tmp_path: Path
) -> None:
    """There is no workspace here, and none is made."""
    with redis_server() as server:
        asyncio.run(_fail_some(server.url))
        where = ("--store", server.url, "-w", tmp_path / "none", "--json")
        (row,) = at_once(crawler, "status", *where).rows
        assert row["settled"] == {"timeout": 3} and row["running"] is None
        rows = at_once(crawler, "failures", *where).rows
        assert [one["reason"] for one in rows] == ["timeout"] * 3
        assert at_once(crawler, "retry", *where).rows == [{"put_back": 3}]
        assert at_once(crawler, "failures", *where).rows == []
        (row,) = at_once(crawler, "status", *where).rows
        assert row["open"] == 3
        deleted = at_once(crawler, "reset", *where, "--yes").rows[0]["deleted"]
        assert len(deleted) == 1 and deleted[0].startswith("the keys crawler:* in redis://")
        assert at_once(crawler, "status", *where).rows[0]["open"] == 0
        assert not (tmp_path / "none").exists()


def test_ids_are_looked_at_and_put_back_from_any_machine(
    redis: RedisServer, tmp_path: Path
) -> None:
    where = ("--store", redis.url, "-w", tmp_path / "none", "--json")
    assert at_once("ids", "status", *where).rows[0]["standby"] == []
    assert at_once("ids", "failures", *where).rows == []
    assert at_once("ids", "retry", *where).rows == [{"put_back": 0}]
    assert not (tmp_path / "none").exists()


def test_what_is_in_a_workspace_needs_it(tmp_path: Path) -> None:
    for verb in ("status", "failures", "retry", "reset"):
        assert at_once("repos", verb, "-w", tmp_path / "none").code == 10
