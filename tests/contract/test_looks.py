"""What firehoses ask for, saved beside the registry: on SQLite and on a PostgreSQL server alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from trawlnet.tables.errors import TablesError
from trawlnet.tables.registry.looks import (
    AskedFor,
    DueLook,
    RegistryLooks,
    SavedStream,
    StreamNews,
)
from trawlnet.tables.registry.registry import Registry, migrate_registry
from trawlnet.tables.registry.rules import PdsSource, ScanEnded
from trawlnet.tables.relational.open import open_relational
from trawlnet.tables.scanned.rows import RepoReading, ScanKey, ScannedRecord, ScanScope, Table
from trawlnet.tables.scanned.scanned import Scanned

HERE, THERE = "https://pds.village.social", "https://pds.town.social"
NOW, PAUSE = 1_790_000_000.0, 600.0
ALICE, BOB, CAROL = (f"did:plc:{name:a<24}" for name in ("alice", "bob", "carol"))
SCOPE = ScanScope("s", lambda collection: True)

Body = Callable[[RegistryLooks, Registry, Scanned], Awaitable[None]]


def on(where: Path | str, body: Body, most: int = 100) -> None:
    async def run() -> None:
        db = await open_relational(where)
        try:
            await migrate_registry(db)
            tables, registry = Scanned(db), Registry(db)
            await tables.migrate()
            await tables.forget()  # A server is shared by the tests of this file.
            await registry.forget()
            for url in (HERE, THERE):
                await registry.register(url, PdsSource.USER, now=NOW)
            await body(RegistryLooks(db, most), registry, tables)
        finally:
            await db.close()

    asyncio.run(run())


def stream(seq: int, host: str = "relay.example") -> SavedStream:
    return SavedStream(host, seq, "2026-09-21T00:00:00Z", False, NOW)


def told(*dids: str, home: str = "") -> StreamNews:
    return StreamNews(dids, home=home)


async def hold(registry: Registry, tables: Scanned, did: str, url: str = HERE) -> None:
    """A record of an account was read there."""
    assert await registry.claim_one(url, NOW, 60.0, "scan")
    record = ScannedRecord(
        Table.RECORDS, f"at://{did}/a.b.c/1", "cid", did, "1", "a.b.c", "{}", True
    )
    reading = RepoReading(did, "rev", 1, (), is_held=True)
    await tables.end_reading(ScanKey(url, SCOPE, "scan"), [record], reading, NOW)
    await registry.release(url, "scan", NOW)


async def due(looks: RegistryLooks, url: str, now: float = NOW) -> list[str]:
    return [look.did for look in await looks.due_looks(url, "s", now, 100)]


def test_a_position_and_what_is_before_it_are_saved_together(where: Path | str) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        assert await looks.save(stream(7), told(ALICE, home=HERE), NOW) == AskedFor(1)
        assert await looks.streams() == [stream(7)]
        assert await due(looks, HERE) == [ALICE]
        with pytest.raises((TablesError, UnicodeEncodeError)):
            # A name that no database takes: nothing of the batch is written.
            await looks.save(stream(9), told(BOB, "did:plc:\ud800", home=HERE), NOW)
        assert await looks.streams() == [stream(7)]
        assert await due(looks, HERE) == [ALICE]

    on(where, body)


def test_an_account_is_looked_at_where_it_was_met_at_home_and_searched_for_else(
    where: Path | str,
) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        await hold(registry, tables, ALICE)
        await looks.save(stream(1), told(ALICE, BOB), NOW)
        assert await due(looks, HERE) == [ALICE]
        (search,) = await looks.due_searches(NOW, True, 10)
        assert search.did == BOB and not await looks.due_searches(NOW, False, 10)
        await looks.found(search, THERE, NOW)
        assert await due(looks, THERE) == [BOB] and not await looks.due_searches(NOW, True, 10)
        # Something that is not about records matters only if the account was met before.
        await looks.save(stream(2), StreamNews(touched=(CAROL,)), NOW)
        assert not await looks.due_searches(NOW, True, 10)

    on(where, body)


def test_what_was_asked_for_during_a_look_is_looked_at_again_after_a_pause(
    where: Path | str,
) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        await looks.save(stream(1), told(ALICE, home=HERE), NOW)
        (look,) = await looks.due_looks(HERE, "s", NOW, 10)
        await looks.save(stream(2), told(ALICE, home=HERE), NOW)
        await looks.looked(HERE, look, NOW, NOW + 5)
        assert await due(looks, HERE) == [] and await looks.waiting() == (1, 0)
        (again,) = await looks.due_looks(HERE, "s", NOW + 5, 10)
        await looks.looked(HERE, again, NOW + 5, NOW + 10)
        assert await looks.waiting() == (0, 0)
        # The pause holds for what is asked for after the look, too.
        await looks.save(stream(3), told(ALICE, home=HERE), NOW + 6)
        assert await due(looks, HERE, NOW + 9) == [] and await due(looks, HERE, NOW + 10) == [ALICE]

    on(where, body)


def test_there_is_room_for_so_many_and_beyond_it_the_pds_is_scanned(where: Path | str) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        many = [f"did:plc:{number:024}" for number in range(30)]
        assert await looks.save(stream(1), told(*many, home=HERE), NOW) == AskedFor(10, 20)
        assert len(await due(looks, HERE)) == 10 and await looks.waiting() == (10, 1)
        # Other servers have their places, known accounts theirs beside unknown ones.
        assert await looks.save(stream(2), told(ALICE, home=THERE), NOW) == AskedFor(1)
        unknown = [f"did:plc:x{number:023}" for number in range(60)]
        asked = await looks.save(stream(3), told(*unknown), NOW)
        assert asked == AskedFor(50, 0, 10)
        # The ten may live anywhere: every PDS is to be scanned. One of the two was before.
        assert (await looks.waiting())[1] == 2
        assert await looks.save(stream(4), told(BOB, home=THERE), NOW) == AskedFor(1)
        # One that waits already needs no further place.
        assert await looks.save(stream(5), told(many[0], home=HERE), NOW) == AskedFor(1)

    on(where, body)


def test_a_gap_makes_every_pds_concerned_due_once_for_a_walk_that_begins_later(
    where: Path | str,
) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        for url in (HERE, THERE):
            assert await registry.claim_one(url, NOW, 60.0, "scan")
            ended = ScanEnded(1, scope="s")
            assert await registry.completed(url, "scan", ended, now=NOW)
        await looks.save(stream(1), StreamNews(is_gap=True, home=HERE), NOW)
        assert await looks.waiting() == (0, 1)
        assert await looks.grant("s", NOW + PAUSE - 1, PAUSE) == 0
        await looks.save(stream(2), StreamNews(is_gap=True), NOW)
        assert await looks.waiting() == (0, 2)
        assert await registry.claim_one(THERE, NOW + PAUSE, 60.0, "other")
        assert await looks.grant("s", NOW + PAUSE, PAUSE) == 1
        assert await looks.waiting() == (0, 1)  # Who scans it may have passed what changed.
        due = await registry.claim(10, NOW + PAUSE, 60.0, "me")
        assert [row.pds_url for row in due] == [HERE]

    on(where, body)


def test_a_stream_whose_numbers_begin_anew_is_joined_anew(where: Path | str) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        await looks.save(stream(9), told(), NOW)
        await looks.save(stream(9), StreamNews(is_anew=True), NOW)
        assert await looks.streams() == [] and await looks.waiting() == (0, 2)

    on(where, body)


def test_a_pds_that_cannot_be_asked_waits_and_is_then_left_to_scans(where: Path | str) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        await looks.save(stream(1), told(ALICE, BOB, home=HERE), NOW)
        await looks.later(HERE, NOW + 30)
        assert await looks.due_places(NOW, 10) == []
        (look, _) = await looks.due_looks(HERE, "s", NOW + 30, 10)
        assert look == DueLook(ALICE, 1, False, 1)
        await looks.give_up(HERE, NOW)
        assert await looks.waiting() == (0, 1)

    on(where, body)


def test_a_pds_that_is_removed_takes_what_waits_with_it(where: Path | str) -> None:
    async def body(looks: RegistryLooks, registry: Registry, tables: Scanned) -> None:
        await looks.save(stream(1), told(ALICE, home=HERE), NOW)
        await looks.save(stream(2), told(BOB), NOW)
        await looks.ask_rescan(HERE, NOW)
        await registry.remove(HERE)
        await registry.remove("no url")
        assert await looks.waiting() == (1, 0)
        # Nor does it come back by what a firehose says.
        await looks.save(stream(3), told(ALICE, home=HERE), NOW)
        assert await looks.waiting() == (1, 0)

    on(where, body)
