"""Ids that earlier code had begun to fetch: told of, carried on, and stored."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.frozen.commands import ids_range, ids_words
from tests.frozen.ice import copies, notes, thaw, thaw_rabbit, thaw_redis
from tests.frozen.story import check_board, check_story, done, said
from tests.frozen.worlds import ids_world
from tests.support.program import at_once, trawlnet
from tests.support.servers import rabbitmq_server, redis_server
from tests.support.world_thread import in_thread
from trawlnet.crawlers.ids import build
from trawlnet.queues.open import open_queue
from trawlnet.sim.ids.world import IdsWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[IdsWorld]:
    (tmp_path / "world").mkdir()
    with in_thread(ids_world(tmp_path / "world" / "log")) as served:
        yield served


def asked(world: IdsWorld) -> set[int]:
    world.served._log.flush()
    rows = map(json.loads, world.manifest.with_name("log").read_text().splitlines())
    found = (re.search(r"CarnageReport/(\d+)", row["path"]) for row in rows)
    return {int(one[1]) for one in found if one}


def stored(folder: Path, until: int) -> list[int]:
    with sqlite3.connect(folder / "state" / "ids" / "instances.db") as db:
        query = "SELECT instance_id FROM instance WHERE instance_id < ? ORDER BY 1"
        return [row[0] for row in db.execute(query, (until,))]


@pytest.mark.parametrize("name", copies("ids-killed"))
def test_a_killed_crawl_is_told_of_carried_on_and_stored(
    name: str, world: IdsWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    check_story("ids", folder, verbs=("status", "gaps", "missed"))
    check_board(folder, "ids")
    first, until = ids_range(world.traffic)
    before = stored(folder, until)
    done(at_once(*ids_words(world, folder), "--max-rps", 300), 4)
    assert min(asked(world)) >= notes(folder)["status"][0]["watermark"], "settled, and asked again"
    # One process has one embedded ClickHouse: it cannot be the tests'.
    done(trawlnet("ids", "store", "-w", folder, "--drain"))
    raids = [i for i in range(first, until) if world.traffic.is_raid(i)]
    there = [i for i in raids if world.traffic.visible_at(i) is not None]
    assert stored(folder, until) == there and set(before) <= set(there)
    sql = f"SELECT instance_id FROM pgcr_raw WHERE instance_id < {until} ORDER BY 1"
    rows = done(trawlnet("repos", "query", "-w", folder, sql, "--json")).rows
    assert [int(row["instance_id"]) for row in rows] == there
    assert at_once("ids", "report", "-w", folder, "-o", tmp_path / "r.html").code == 0


def test_a_ledger_in_redis_is_told_of_and_carried_on(
    world: IdsWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests of queues try RabbitMQ: here a spool is in its place."""
    folder, spool = thaw("ids-redis", tmp_path / "w"), tmp_path / "spool"
    monkeypatch.setattr(build, "open_queue", lambda _, name: open_queue(spool, name))
    with redis_server() as server:
        thaw_redis(folder, server.url)
        check_ledger_in_redis(world, folder, server.url, "amqp://elsewhere/")
    _, until = ids_range(world.traffic)
    raids = {i for i in asked(world) if world.traffic.is_raid(i)}
    there = {i for i in raids if i < until and world.traffic.visible_at(i) is not None}
    assert sorted(i for i in published(spool) if i < until) == sorted(there)


def check_ledger_in_redis(world: IdsWorld, folder: Path, store: str, queue: str) -> None:
    where = ("--store", store)
    check_story("ids", folder, *where, verbs=("gaps", "missed"))
    (now,), (then,) = said("ids", "status", "-w", folder, *where), notes(folder)["status"]
    # The rest is told by the process that runs, for as long as it does.
    for key in ("first", "watermark", "beyond", "done", "holes", "in_gaps", "settled"):
        assert now[key] == then[key], key
    words = (*ids_words(world, folder), *where, "--queue", queue)
    done(at_once(*words, "--max-rps", 300), 4)
    (now,) = said("ids", "status", "-w", folder, *where)
    first, until = ids_range(world.traffic)
    again = {i for i in asked(world) if i < then["beyond"]}
    gaps = (range(gap["start"], gap["end"]) for gap in notes(folder)["gaps"])
    assert again == set(chain(*gaps)), "those that were open"
    assert now["first"] == first and now["watermark"] >= until


@pytest.mark.parametrize("name", [one for one in copies("ids-redis") if one != "ids-redis"])
def test_messages_of_earlier_code_in_rabbitmq_are_stored_with_those_of_now(
    name: str, world: IdsWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    with redis_server() as server, rabbitmq_server() as rabbit:
        thaw_redis(folder, server.url)
        bodies = asyncio.run(sent_again(folder, rabbit.url))
        check_ledger_in_redis(world, folder, server.url, rabbit.url)
        # One process has one embedded ClickHouse: it cannot be the tests'.
        done(trawlnet("ids", "store", "-w", folder, "--queue", rabbit.url, "--drain"))
    first, until = ids_range(world.traffic)
    raids = [i for i in range(first, until) if world.traffic.is_raid(i)]
    assert bodies and set(bodies) < set(raids)
    there = [i for i in raids if world.traffic.visible_at(i) is not None]
    assert stored(folder, until) == there


async def sent_again(folder: Path, url: str) -> list[int]:
    """The ids of the messages."""
    for name in json.loads((folder / "rabbit.json").read_text()):
        await (await open_queue(url, name)).close()  # Which declares it, as a crawl would.
    found = await thaw_rabbit(folder, url)
    every = [json.loads(body) for bodies in found.values() for body in bodies]
    return [body["instance"]["instance_id"] for body in every]


def published(spool: Path) -> list[int]:
    """The id of each message."""
    lines = [line for path in spool.rglob("*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line)["instance"]["instance_id"] for line in lines]
