"""What scans write down, on SQLite and on a PostgreSQL server alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.pds.scan import COMMENT, EPRINT, TAG, bench, pdses_on, rkey, write
from tests.support.servers import PostgresServer
from trawlnet.tables.errors import LeaseLost
from trawlnet.tables.registry.registry import Registry, migrate_registry
from trawlnet.tables.registry.rules import PdsSource
from trawlnet.tables.relational.database import Relational, Statement, migrate_relational
from trawlnet.tables.relational.open import open_relational
from trawlnet.tables.scanned.rows import (
    LastReading,
    ListedRepo,
    RepoReading,
    ScanKey,
    ScannedRecord,
    ScanScope,
    StoredListing,
    Table,
    WalkProgress,
)
from trawlnet.tables.scanned.scanned import STEPS, Scanned

PDS_URL = "https://pds.village.social"
PDS = ScanKey(PDS_URL, ScanScope("s", lambda collection: True), "me")
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
        tables, registry = Scanned(db), Registry(db)
        await migrate_registry(db)
        await tables.migrate()
        await tables.migrate()  # As every start does.
        await registry.register(PDS_URL, PdsSource.USER, now=NOW)
        assert await registry.claim_one(PDS_URL, NOW, 60.0, PDS.lease)
        yield tables, db
    finally:
        await db.close()


def on(where: Path | str, body: Callable[[Scanned, Relational], Awaitable[None]]) -> None:
    async def run() -> None:
        async with opened(where) as (tables, db):
            await body(tables, db)

    asyncio.run(run())


def record(
    did: str, number: int, table: Table = Table.EPRINTS, collection: str = EPRINT
) -> ScannedRecord:
    key = rkey(number)
    uri = f"at://{did}/{collection}/{key}"
    return ScannedRecord(table, uri, f"bafyrei{number:052}", did, key, collection, "{}", True)


WALK = WalkProgress(walk=1, is_open=True)


def test_a_page_its_cursor_and_what_is_to_be_read_are_one(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        assert await tables.progress(PDS) == WalkProgress()
        after = replace(WALK, cursor="next", pages=1, leads_todo=("a.b.c",), leads_at=1.5)
        page = [
            ListedRepo(ALICE, "r1"),
            ListedRepo(BOB, "r1"),
            ListedRepo(CAROL, "r1", False, False),
        ]
        assert await tables.list_page(PDS, page, after, (), NOW) == StoredListing(3, 2, after)
        assert await tables.progress(PDS) == after
        assert [one.did for one in await tables.pending(PDS, 10)] == [ALICE, BOB]
        # The same page again in the same walk has nobody new.
        assert await tables.list_page(PDS, page, after, (), NOW) == StoredListing(0, 2, after)

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
        under_way = replace(bob, todo=(EPRINT, COMMENT), cursor="c", rows=7, is_held=True)
        await tables.put_records(PDS, [record(BOB, 1)], under_way, NOW)
        assert (await tables.pending(PDS, 10))[0] == under_way
        assert await tables.was_seen(PDS, record(BOB, 1).uri, under_way)
        assert not await tables.was_seen(PDS, record(BOB, 2).uri, under_way)
        await tables.end_reading(PDS, [record(BOB, 2)], replace(under_way, todo=()), NOW)
        assert [one.did for one in await tables.pending(PDS, 10)] == [ALICE]
        assert await tables.last_reading(PDS, BOB) == LastReading(1, "r1", is_held=True)

    on(where, body)


def test_what_a_reading_did_not_meet_is_withdrawn_and_may_come_back(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        first = RepoReading(ALICE, "r1", 1, (), is_held=True)
        kept, gone = record(ALICE, 1), record(ALICE, 2)
        other = record(ALICE, 3, Table.REVIEWS, COMMENT)
        await tables.end_reading(PDS, [kept, gone, other], first, NOW)
        assert (await tables.held(PDS_URL)).records == {EPRINT: 2, COMMENT: 1}
        await tables.end_reading(PDS, [kept], replace(first, number=2), NOW + 9)
        assert (await tables.held(PDS_URL)).records == {EPRINT: 1}
        deleted = Statement("d", "SELECT uri FROM eprints WHERE deleted_at IS NOT NULL")
        assert await db.rows(deleted) == [(gone.uri,)]
        await tables.end_reading(PDS, [kept, gone], replace(first, number=3), NOW + 18)
        assert await db.rows(deleted) == []

    on(where, body)


def test_a_reading_that_was_overtaken_changes_nothing(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        slow = RepoReading(ALICE, "r1", 1, (EPRINT,), is_held=True)
        quick = RepoReading(ALICE, "r2", 2, (), is_held=True)
        await tables.put_records(PDS, [record(ALICE, 1)], slow, NOW)
        await tables.end_reading(PDS, [record(ALICE, 1), record(ALICE, 2)], quick, NOW)
        await tables.put_records(PDS, [record(ALICE, 1)], replace(slow, cursor="late"), NOW)
        await tables.end_reading(PDS, [], replace(slow, todo=()), NOW)
        assert (await tables.held(PDS_URL)).records == {EPRINT: 2}
        assert await tables.last_reading(PDS, ALICE) == LastReading(2, "r2", is_held=True)
        assert len(await tables.pending(PDS, 10)) == 0

    on(where, body)


def test_whoever_has_lost_the_claim_can_write_nothing(where: Path | str) -> None:
    """A process that slept while another took over wakes up and goes on as if nothing had been."""

    async def body(tables: Scanned, db: Relational) -> None:
        registry, late = Registry(db), NOW + 61.0
        reading = RepoReading(ALICE, "r1", 1, (EPRINT,), is_held=True)
        await tables.list_page(PDS, [ListedRepo(ALICE, "r1"), ListedRepo(BOB, "r1")], WALK, (), NOW)
        await tables.put_records(PDS, [record(ALICE, 1)], reading, NOW)
        heir = replace(PDS, lease="heir")
        assert await registry.claim_one(PDS_URL, late, 60.0, heir.lease)
        await tables.end_reading(heir, [record(ALICE, 1), record(ALICE, 2)], reading, late)
        await tables.save(heir, replace(WALK, walk=2, cursor="heir"), (), late)
        before = [await db.rows(Statement("all", f"SELECT * FROM {table}")) for table in _WRITTEN]
        stale = replace(WALK, is_open=False, is_listed=True)
        writes = [
            tables.save(PDS, stale, (), late),
            tables.settle(PDS, [RepoReading(BOB, "r9", 9)]),
            tables.list_page(PDS, [ListedRepo(CAROL, "r1")], stale, (), late),
            tables.begin_leads(PDS, stale, late),
            tables.add_leads(PDS, EPRINT, [BOB], stale, late),
            tables.put_records(PDS, [record(ALICE, 3)], replace(reading, number=9), late),
            tables.end_reading(PDS, (), replace(reading, number=9, todo=()), late),
            tables.end_walk(PDS, replace(stale, walk=9), (), late),
        ]
        for stale_write in writes:
            with pytest.raises(LeaseLost):
                await stale_write
        after = [await db.rows(Statement("all", f"SELECT * FROM {table}")) for table in _WRITTEN]
        assert after == before
        assert await tables.progress(heir) == replace(WALK, walk=2, cursor="heir")
        # Nor may whoever scans a PDS that was removed.
        await registry.remove(PDS_URL)
        with pytest.raises(LeaseLost):
            await tables.save(heir, WALK, (), late)

    on(where, body)


_WRITTEN = ("scan_progress", "scan_repos", "scan_leads", "eprints")


def test_only_what_was_looked_at_is_withdrawn(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        records = [record(ALICE, 1), record(ALICE, 2, Table.REVIEWS, COMMENT)]
        await tables.end_reading(PDS, records, RepoReading(ALICE, "r1", 1, (), is_held=True), NOW)
        eprints = ScanScope("e", lambda collection: collection == EPRINT, frozenset({TAG}))
        other = replace(PDS, scope=eprints)
        # Numbers are one series for all scopes: the other's first reading comes after ours.
        assert await tables.last_reading(other, ALICE) == LastReading(1, "", is_held=True)
        by_names = RepoReading(ALICE, "r1", 2, (), is_held=True, by_names=True)
        await tables.end_reading(other, [], by_names, NOW)
        assert (await tables.held(PDS_URL)).records == {EPRINT: 1, COMMENT: 1}
        flawed = RepoReading(ALICE, "r1", 3, (), is_held=True, is_flawed=True)
        await tables.end_reading(other, [], flawed, NOW)
        assert (await tables.held(PDS_URL)).records == {EPRINT: 1, COMMENT: 1}
        # What could not be read whole is read again.
        assert (await tables.last_reading(other, ALICE)).rev == ""
        await tables.end_reading(other, [], RepoReading(ALICE, "r1", 4, (), is_held=True), NOW)
        assert (await tables.held(PDS_URL)).records == {COMMENT: 1}
        await tables.list_page(other, [ListedRepo(BOB, "r1")], WALK, (), NOW)
        await tables.end_walk(other, replace(WALK, is_open=False), (), NOW)
        assert (await tables.held(PDS_URL)).records == {COMMENT: 1}

    on(where, body)


def test_two_scopes_that_read_one_repo_in_turns_lose_nothing(where: Path | str) -> None:
    """One begins, the other reads it whole and meets something new, and the first goes on."""

    async def body(tables: Scanned, db: Relational) -> None:
        other = replace(PDS, scope=ScanScope("o", lambda collection: True))
        await tables.list_page(PDS, [ListedRepo(ALICE, "r1")], WALK, (), NOW)
        await tables.list_page(other, [ListedRepo(ALICE, "r1")], WALK, (), NOW)
        mine = replace((await tables.pending(PDS, 1))[0], todo=(EPRINT,), cursor="c")
        await tables.put_records(PDS, [record(ALICE, 9)], mine, NOW)
        (theirs,) = await tables.pending(other, 1)
        assert theirs.number > mine.number
        begun = replace(theirs, todo=(EPRINT,), cursor="d")
        await tables.put_records(other, [record(ALICE, 8)], begun, NOW)
        # What is new since is met by the reading that began first, behind the other's back.
        ended = replace(mine, todo=(), is_held=True)
        await tables.end_reading(PDS, [record(ALICE, 7), record(ALICE, 10)], ended, NOW)
        (going_on,) = await tables.pending(other, 1)
        assert going_on.number == begun.number and going_on.cursor == "d"
        last = replace(going_on, todo=(), is_held=True)
        await tables.end_reading(other, [record(ALICE, 7)], last, NOW)
        live = Statement("l", "SELECT uri FROM eprints WHERE deleted_at IS NULL ORDER BY uri")
        assert [row[0] for row in await db.rows(live)] == sorted(
            record(ALICE, number).uri for number in (7, 8, 10)
        )

    on(where, body)


def test_a_whole_walk_lets_go_of_who_has_gone(where: Path | str) -> None:
    async def body(tables: Scanned, db: Relational) -> None:
        await tables.list_page(PDS, [ListedRepo(ALICE, "r1"), ListedRepo(BOB, "r1")], WALK, (), NOW)
        for did in (ALICE, BOB):
            reading = RepoReading(did, "r1", 1, (), is_held=True)
            await tables.end_reading(PDS, [record(did, 1)], reading, NOW)
        await tables.add_leads(PDS, EPRINT, [ALICE, BOB, ALICE], WALK, NOW)
        assert await tables.leads(PDS, ALICE) == (EPRINT,)
        second = replace(WALK, walk=2, is_listed=True)
        await tables.list_page(PDS, [ListedRepo(ALICE, "r1")], second, (), NOW)
        await tables.end_walk(PDS, replace(second, is_open=False), (), NOW)
        assert (await tables.held(PDS_URL)).records == {EPRINT: 1}
        assert await tables.last_reading(PDS, BOB) == LastReading()
        assert await tables.leads(PDS, ALICE) == ()
        # Whoever comes back is new.
        await tables.list_page(PDS, [ListedRepo(BOB, "r1")], replace(WALK, walk=3), (), NOW)
        assert [one.did for one in await tables.pending(PDS, 10)] == [BOB]

    on(where, body)


def test_a_scan_on_either_database_finds_the_same(where: Path | str) -> None:
    (pds,) = pdses_on(1, 3200)
    pds.lists_by_collection = True
    for number in range(61):  # Where the number is round, it may be that of a full page.
        repo = pds.repo(f"contract/{number}")
        if number < 60:
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


def test_walks_of_an_older_version_go_on(where: Path | str) -> None:
    """Its tables had no scope: theirs is that of the walk."""

    async def run() -> None:
        db = await open_relational(where)
        try:
            await migrate_registry(db)
            await migrate_relational(db, "scanned", STEPS[:1])
            progress = "1, 1, 0, 0, 'next', '', 1, 1000, 1000, 's', 'yes', 5.0, '[\"a.b.c\"]', 'c'"
            await db.run(
                Statement(
                    "p",
                    f"INSERT INTO scan_progress VALUES ('{PDS_URL}', {progress}, "
                    "'2026-01-02T03:04:05+00:00')",
                )
            )
            for did, pending, todo in ((ALICE, 0, "NULL"), (BOB, 1, "'[\"a.b.c\"]'")):
                row = f"'{did}', 'r1', 'r1', 1, 1, {pending}, 1, 4, 'r1', {todo}, 'c', 3, ''"
                await db.run(Statement("r", f"INSERT INTO scan_repos VALUES ('{PDS_URL}', {row})"))
            tables = Scanned(db)
            await tables.migrate()
            walk = replace(WALK, cursor="next", pages=1, page_size=1000, last_rows=1000)
            assert await tables.progress(PDS) == replace(walk, by_collection="yes", leads_at=-1.0)
            assert await tables.last_reading(PDS, ALICE) == LastReading(4, "r1", is_held=True)
            assert await tables.pending(PDS, 9) == [RepoReading(BOB, "r1", 5, is_held=True)]
        finally:
            await db.close()

    asyncio.run(run())


def test_a_reading_of_a_version_that_counted_pages_goes_on(where: Path | str) -> None:
    async def run() -> None:
        db = await open_relational(where)
        try:
            await migrate_registry(db)
            await migrate_relational(db, "scanned", STEPS[:3])
            row = f"'{PDS_URL}', '{PDS.scope.digest}', '{ALICE}', '', 'r1', 1, 1, 1, 1, 4, 'r1'"
            todo = "'[\"a.b.c\"]', 'c', 3, 0, 0, ''"
            await db.run(Statement("r", f"INSERT INTO scan_repos VALUES ({row}, {todo})"))
            tables = Scanned(db)
            await tables.migrate()
            under_way = RepoReading(ALICE, "r1", 4, ("a.b.c",), "c", 300, is_held=True)
            assert await tables.pending(PDS, 9) == [under_way]
        finally:
            await db.close()

    asyncio.run(run())
