"""`trawlnet fleet`: looked at and steered from anywhere, by its Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from program import trawlnet
from servers import RedisServer, redis_server
from trawlnet.fleet.supervise import begin
from trawlnet.store.redis_fleet import FleetKeys, Plan, Word


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


async def _plan(url: str, shards: int = 0) -> Plan:
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
    assert idle.code == 1 and idle.error["error"] == "no fleet is at work there"
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
