"""What scans write down, on SQLite and on a PostgreSQL server alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.pds_scan import COMMENT, EPRINT, TAG, bench, pdses_on, rkey, write
from tests.servers import PostgresServer

from trawlnet.tables.relational import Relational, Statement, open_relational
from trawlnet.tables.scanned import Scanned
from trawlnet.tables.scanned_rows import Listed, ListedRepo, Progress, Reading, Record, Table

PDS = "https://pds.example.net"
NOW = 1_790_000_000.0
ALICE, BOB, CAROL = (f"did:plc:{name:a<24}" for name in ("alice", "bob", "carol"))


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A database of its own for every test."""
    if request.param == "sqlite":
        return tmp_path / "registry.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return asyncio.run(_new_schema(server.url, tmp_path.name))


async def _new_schema(url: str, name: str) -> str:
    schema = "".join(char if char.isalnum() else "_" for char in name.lower())[:60]
    db = await open_relational(url)
    await db.run(Statement("schema", f"CREATE SCHEMA {schema}"))
    await db.close()
    return f"{url}{'&' if '?' in url else '?'}options=-c%20search_path%3D{schema}"


@asynccontextmanager
async def opened(where: Path | str) -> AsyncIterator[tuple[Scanned, Relational]]:
    db = await open_relational(where)
    try:
        tables = Scanned(db)
        await tables.migrate()
        await tables.migrate()  # As every start does.
        yield tables, db
    finally:
        await db.close()


def on(where: Path | str, body: Callable[[Scanned, Relational], Awaitable[None]]) -> None:
    async def run() -> None:
        async with opened(where) as (tables, db):
            await body(tables, db)

    asyncio.run(run())


def record(did: str, number: int, table: Table = Table.EPRINTS, collection: str = EPRINT) -> Record:
    key = rkey(number)
    uri = f"at://{did}/{collection}/{key}"
    return Record(table, uri, f"bafyrei{number:052}", did, key, collection, "{}", True)


WALK = Progress(walk=1, is_open=True, scope="s")


def test_a_page_its_cursor_and_what_is_to_be_read_are_one(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        assert await tables.progress(PDS) == Progress()
        after = replace(WALK, cursor="next", pages=1, leads_todo=("a.b.c",), leads_at=1.5)
        page = [
            ListedRepo(ALICE, "r1"),
            ListedRepo(BOB, "r1"),
            ListedRepo(CAROL, "r1", False, False),
        ]
        assert await tables.list_page(PDS, page, after, (), NOW) == Listed(3, 2, after)
        assert await tables.progress(PDS) == after
        assert [one.did for one in await tables.pending(PDS, 10)] == [ALICE, BOB]
        # The same page again in the same walk has nobody new.
        assert await tables.list_page(PDS, page, after, (), NOW) == Listed(0, 2, after)

    on(where, body)


def test_what_was_read_at_a_rev_is_not_to_be_read_again(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        repos = [ListedRepo(ALICE, "r1"), ListedRepo(BOB, "r1"), ListedRepo(CAROL, "")]
        await tables.list_page(PDS, repos, WALK, (), NOW)
        alice, bob, carol = await tables.pending(PDS, 10)
        await tables.save(PDS, WALK, [alice, replace(bob, trouble="timeout"), carol], NOW)
        assert len(await tables.pending(PDS, 10)) == 0
        assert await tables.troubles(PDS, 1) == {"": 2, "timeout": 1}
        second = replace(WALK, walk=2)
        await tables.list_page(PDS, repos, second, (), NOW)
        # Trouble is asked again, and so is who has no rev.
        assert {one.did for one in await tables.pending(PDS, 10)} == {BOB, CAROL}
        full = replace(WALK, walk=3, is_full=True)
        await tables.list_page(PDS, repos, full, (), NOW)
        assert len(await tables.pending(PDS, 10)) == 3

    on(where, body)


def test_a_reading_goes_on_where_it_was_left(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        await tables.list_page(PDS, [ListedRepo(ALICE, "r1"), ListedRepo(BOB, "r1")], WALK, (), NOW)
        bob = (await tables.pending(PDS, 10))[1]
        under_way = replace(bob, todo=(EPRINT, COMMENT), cursor="c", pages=1, is_held=True)
        await tables.put_records(PDS, [record(BOB, 1)], under_way, NOW)
        assert (await tables.pending(PDS, 10))[0] == under_way
        assert await tables.was_seen(PDS, record(BOB, 1).uri, under_way)
        assert not await tables.was_seen(PDS, record(BOB, 2).uri, under_way)
        await tables.end_reading(PDS, [record(BOB, 2)], replace(under_way, todo=()), NOW)
        assert [one.did for one in await tables.pending(PDS, 10)] == [ALICE]
        last = await tables.last_reading(PDS, BOB)
        assert last is not None and last[1] == "r1" and last[0].number == 2

    on(where, body)


def test_what_a_reading_did_not_meet_is_withdrawn_and_may_come_back(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        first = Reading(ALICE, "r1", 1, (), is_held=True)
        kept, gone = record(ALICE, 1), record(ALICE, 2)
        other = record(ALICE, 3, Table.REVIEWS, COMMENT)
        await tables.end_reading(PDS, [kept, gone, other], first, NOW)
        assert (await tables.held(PDS)).records == {EPRINT: 2, COMMENT: 1}
        await tables.end_reading(PDS, [kept], replace(first, number=2), NOW + 9)
        assert (await tables.held(PDS)).records == {EPRINT: 1}
        deleted = Statement("d", "SELECT uri FROM eprints WHERE deleted_at IS NOT NULL")
        assert await db.rows(deleted) == [(gone.uri,)]
        await tables.end_reading(PDS, [kept, gone], replace(first, number=3), NOW + 18)
        assert await db.rows(deleted) == []

    on(where, body)


def test_a_reading_that_was_overtaken_changes_nothing(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        slow = Reading(ALICE, "r1", 1, (EPRINT,), is_held=True)
        quick = Reading(ALICE, "r2", 2, (), is_held=True)
        await tables.put_records(PDS, [record(ALICE, 1)], slow, NOW)
        await tables.end_reading(PDS, [record(ALICE, 1), record(ALICE, 2)], quick, NOW)
        await tables.put_records(PDS, [record(ALICE, 1)], replace(slow, cursor="late"), NOW)
        await tables.end_reading(PDS, [], replace(slow, todo=()), NOW)
        assert (await tables.held(PDS)).records == {EPRINT: 2}
        last = await tables.last_reading(PDS, ALICE)
        assert last is not None and last[1] == "r2"
        assert len(await tables.pending(PDS, 10)) == 0

    on(where, body)


def test_a_whole_walk_lets_go_of_who_has_gone(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        await tables.list_page(PDS, [ListedRepo(ALICE, "r1"), ListedRepo(BOB, "r1")], WALK, (), NOW)
        for did in (ALICE, BOB):
            reading = Reading(did, "r1", 1, (), is_held=True)
            await tables.end_reading(PDS, [record(did, 1)], reading, NOW)
        await tables.add_leads(PDS, EPRINT, [ALICE, BOB, ALICE], WALK, NOW)
        assert await tables.leads(PDS, ALICE) == (EPRINT,)
        second = replace(WALK, walk=2, is_listed=True)
        await tables.list_page(PDS, [ListedRepo(ALICE, "r1")], second, (), NOW)
        await tables.end_walk(PDS, replace(second, is_open=False), (), NOW)
        assert (await tables.held(PDS)).records == {EPRINT: 1}
        assert await tables.last_reading(PDS, BOB) is None
        assert await tables.leads(PDS, ALICE) == ()
        # Whoever comes back is new.
        await tables.list_page(PDS, [ListedRepo(BOB, "r1")], replace(WALK, walk=3), (), NOW)
        assert [one.did for one in await tables.pending(PDS, 10)] == [BOB]

    on(where, body)


def test_a_scan_on_either_database_finds_the_same(where: Path | str) -> None:
    (pds,) = pdses_on(1, 3200)
    pds.lists_by_collection = True
    for number in range(60):
        repo = pds.repo(f"contract/{number}")
        write(repo, EPRINT if number % 3 else TAG, 1 + number % 4)
    repo.put(COMMENT, rkey(1), {"body": "zero \0 and \u2028"})

    async def run() -> None:
        async with bench([pds], where) as made:
            while not (result := await made.scan(pds, records=50)).complete:
                assert result.found == 50
            assert result.held == {EPRINT: 100, TAG: 50, COMMENT: 1}
            assert result.indexed_held == 100
            idle = await made.scan(pds)
            assert idle.requests == 1 and idle.held == result.held
            repo.delete(COMMENT, rkey(1))
            assert (await made.scan(pds)).held == {EPRINT: 100, TAG: 50}

    asyncio.run(run())


def test_two_who_read_the_same_repos_at_once_agree(where: Path | str) -> None:
    (pds,) = pdses_on(1, 3201)
    for number in range(8):
        write(pds.repo(f"crowd/{number}"), EPRINT, 40)
        write(pds.repo(f"crowd/{number}"), COMMENT, 5)

    async def run() -> None:
        async with bench([pds], where) as made:
            for turn in range(3):
                async with asyncio.TaskGroup() as group:
                    whole = group.create_task(made.scan(pds, records=10_000))
                    for did in pds.repos:
                        group.create_task(made.scan_did(pds, did))
                assert whole.result().complete
                assert len(await made.uris("eprints")) == 8 * (40 - turn)
                assert len(await made.uris("reviews")) == 40
                for repo in pds.repos.values():
                    repo.delete(EPRINT, rkey(turn))

    asyncio.run(run())
