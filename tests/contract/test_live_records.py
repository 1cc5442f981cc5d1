"""Changes of records and replays of archives in one table, embedded and on a server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clickhouse_front import ClickHouse, clickhouse_front
from tests.support.repos.archive_rows import block_of, write_segment
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import Replay
from trawlnet.tables.clickhouse import open as opening
from trawlnet.tables.clickhouse.live_records import (
    RecordChange,
    clear_repos,
    insert_changes,
    live_position,
    save_live_position,
)
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query, Tables
from trawlnet.tables.clickhouse.server import ClickHouseServer

CURRENT = Query(
    "current", "SELECT repo, collection, rkey, record_json FROM repo_records FINAL ORDER BY ALL"
)
A, B = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb"
POST, LIKE = "app.bsky.feed.post", "app.bsky.feed.like"
T = 1_800_000_000_000_000


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with clickhouse_front(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture(params=["chdb", "server"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | ClickHouseServer:
    if request.param == "chdb":
        return tmp_path / "tables"
    front = request.getfixturevalue("front")
    database = "db_" + "".join(c for c in tmp_path.name if c.isalnum())
    return ClickHouseServer(front.address, password=front.password, database=database)


def change(at, rkey, text=b"{}", *, repo=A, collection=POST, operation="create"):
    body = b"" if operation == "delete" else text
    return RecordChange(repo, collection, rkey, operation, body, T + at)


async def replay(tables: Tables, place: Path, globs: tuple[str, ...] = ()) -> None:
    await Replay(tables, CollectionFilter(globs), asyncio.Event()).run(place, 1)


async def current(tables: Tables) -> list[list[str]]:
    return await tables.rows(CURRENT)


def test_the_newest_change_counts_and_a_deletion_leaves_nothing(where):
    async def test():
        async with opened(where) as tables:
            some = [change(1, "a", b"1"), change(2, "b", b"2"), change(3, "c", '"ü\n🙂"'.encode())]
            await insert_changes(tables, some)
            await insert_changes(tables, [change(5, "a", b"5", operation="update")])
            await insert_changes(tables, [change(4, "b", operation="delete")])
            there = [[A, POST, "a", "5"], [A, POST, "c", '"ü\n🙂"']]
            assert await current(tables) == there
            await insert_changes(tables, some)  # As after a kill before the position was saved.
            assert await current(tables) == there
            pieces = [one async for one in tables.stream("SELECT rkey FROM repo_records", "CSV")]
            assert sorted(b"".join(pieces).split()) == [b'"a"', b'"c"'], "nobody need say FINAL"

    asyncio.run(test())


def test_an_account_that_goes_takes_its_older_records_with_it_and_may_come_back(where):
    async def test():
        async with opened(where) as tables:
            mine = [change(1, "a"), change(2, "b", collection=LIKE)]
            await insert_changes(tables, [*mine, change(3, "a", repo=B), change(9, "later")])
            for _ in range(2):
                await clear_repos(tables, {A: T + 5})
                assert await current(tables) == [[A, POST, "later", "{}"], [B, POST, "a", "{}"]]
            await insert_changes(tables, mine)
            assert len(await current(tables)) == 2, "what was heard of before it went"
            await insert_changes(tables, [change(6, "a", b"6")])
            assert [A, POST, "a", "6"] in await current(tables)

    asyncio.run(test())


def test_a_replay_of_an_older_archive_brings_back_nothing_that_went_since(where, tmp_path):
    rows = [("kept", b"0"), ("changed", b"0"), ("deleted", b"0")]
    blocks = [(did, block_of(did, {POST: rows}, T)) for did in (A, B)]
    write_segment(tmp_path / "a/segment_0001.rca", blocks)

    async def test():
        async with opened(where) as tables:
            await save_live_position(tables, 7)
            await insert_changes(
                tables,
                [
                    change(1, "changed", b"1", operation="update"),
                    change(2, "deleted", operation="delete"),
                    change(3, "new", b"3"),
                ],
            )
            await clear_repos(tables, {B: T + 4})
            there = [[A, POST, "changed", "1"], [A, POST, "kept", "0"], [A, POST, "new", "3"]]
            for _ in range(2):
                await replay(tables, tmp_path / "a")
                assert await current(tables) == there
            assert await live_position(tables) == 7

    asyncio.run(test())


def test_a_replay_of_a_newer_archive_takes_away_what_no_change_told_of(where, tmp_path):
    block = block_of(A, {POST: [("a", b"9")], LIKE: [("x", b"9")]}, T + 9)
    write_segment(tmp_path / "a/segment_0001.rca", [(A, block)])

    async def test():
        async with opened(where) as tables:
            await save_live_position(tables, 7)
            old = [change(1, "a"), change(2, "missed"), change(3, "y", collection=LIKE)]
            await insert_changes(tables, [*old, change(12, "new", b"12")])
            await replay(tables, tmp_path / "a", (POST,))
            posts = [[A, POST, "a", "9"], [A, POST, "new", "12"]]
            assert await current(tables) == [[A, LIKE, "y", "{}"], *posts], "of these collections"
            await replay(tables, tmp_path / "a")
            assert await current(tables) == [[A, LIKE, "x", "9"], *posts]

    asyncio.run(test())


@pytest.mark.slow
def test_tables_of_before_deletions_keep_their_rows_whenever_the_step_was_cut_short(
    where, monkeypatch
):
    steps = opening.STEPS
    exchange = steps[3]

    async def test():
        monkeypatch.setattr(opening, "STEPS", steps[:3])
        async with opened(where) as tables:
            await insert_changes(tables, [change(1, "a"), change(2, "b")])
        for cut in range(len(exchange)):
            monkeypatch.setattr(opening, "STEPS", (*steps[:3], (*exchange[:cut], "no such step")))
            with pytest.raises(KeyError):
                async with opened(where):
                    pass
        monkeypatch.setattr(opening, "STEPS", steps)
        async with opened(where) as tables:
            assert len(await current(tables)) == 2
            await insert_changes(tables, [change(3, "b", operation="delete")])
            assert await current(tables) == [[A, POST, "a", "{}"]]
            names = await tables.rows(Query("names", "SHOW TABLES LIKE 'repo_records%'"))
            assert names == [["repo_records"]]

    asyncio.run(test())


def test_a_position_is_there_after_a_restart(where):
    async def test():
        async with opened(where) as tables:
            assert await live_position(tables) is None
            await save_live_position(tables, 3 << 40 | 17)
        async with opened(where) as tables:
            assert await live_position(tables) == 3 << 40 | 17

    asyncio.run(test())


@pytest.mark.slow
def test_many_accounts_go_at_once(where):
    dids = [f"did:plc:{number:024}" for number in range(1200)]
    dice = random.Random(4)
    gone = {did: T + 5 for did in dids if dice.random() < 0.6}

    async def test():
        async with opened(where) as tables:
            await insert_changes(tables, [change(1, "a", repo=did) for did in dids])
            await clear_repos(tables, gone)
            assert {row[0] for row in await current(tables)} == set(dids) - set(gone)

    asyncio.run(test())
