"""One contract of storing ids, on two sets: SQLite, a spool and chDB; PostgreSQL, RabbitMQ and
ClickHouse over HTTP."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.ids.made_reports import KINGS_FALL, MEMBER, entry, report
from tests.support.ids.sets import (
    Servers,
    StoreSet,
    ask,
    embedded_set,
    instances,
    messages,
    raids,
    served_set,
)
from tests.support.program import Ran, trawlnet
from tests.support.servers import PostgresServer
from trawlnet.crawlers.ids.pgcr.processor import process, store_message
from trawlnet.crawlers.ids.storing.messages import ITEM
from trawlnet.crawlers.ids.storing.workers import StoreLimits, Storing, StoringCounts
from trawlnet.net.clock import SystemClock
from trawlnet.sim.ids import Traffic, serve_ids
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query
from trawlnet.tables.errors import TablesUnreachable
from trawlnet.tables.instances import instances as tables_of_instances
from trawlnet.tables.instances.activities import KnownHash
from trawlnet.tables.instances.instances import (
    latest_stored,
    opened_instances,
    original,
    store_instances,
    unknown_hashes,
)
from trawlnet.tables.relational import postgres
from trawlnet.tables.relational.database import Relational, from_db

SMALL = StoreLimits(batch=4)


@pytest.fixture(params=["embedded", "served"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSet:
    if request.param == "embedded":
        return embedded_set(tmp_path)
    return served_set(request.getfixturevalue("servers"))


def on_tables(where: StoreSet, body: Callable[[Relational], Awaitable[None]]) -> None:
    async def run() -> None:
        async with opened_instances(where.instances) as db:
            await body(db)

    asyncio.run(run())


def stored(
    where: StoreSet, raws: list[dict[str, Any]], limits: StoreLimits = SMALL
) -> StoringCounts:
    async def run() -> StoringCounts:
        await where.publish(messages(raws))
        return await where.drain(limits)

    return asyncio.run(run())


def test_each_instance_is_a_row_with_its_people_and_its_raw_report(where: StoreSet) -> None:
    raw = report(
        entry(1, deaths=2, kills=31), entry(2, completed=0), selectedSkullHashes=[7, 8]
    ) | {"activityWasStartedFromBeginning": False}
    assert stored(where, [raw]) == StoringCounts(stored=1)

    async def look(db: Relational) -> None:
        (row,) = await ask(
            db,
            "SELECT instance_id, hash, completed, fresh, flawless, player_count, date_completed,"
            " duration_seconds, skull_hashes FROM instance",
        )
        assert row[:6] == (12_345_678_901, KINGS_FALL, 1, 0, 0, 2)
        assert from_db(row[6]) == process(raw).date_completed.timestamp()
        assert (row[7], json.loads(row[8])) == (3600, [7, 8])
        people = await ask(
            db, "SELECT membership_id, completed, time_played_seconds FROM instance_player"
        )
        assert sorted(people) == [(MEMBER + 1, 1, 3600), (MEMBER + 2, 0, 3600)]
        characters = await ask(db, "SELECT membership_id, kills, deaths FROM instance_character")
        assert sorted(characters) == [(MEMBER + 1, 31, 2), (MEMBER + 2, 10, 0)]
        weapons = await ask(db, "SELECT weapon_hash, kills, precision_kills FROM instance_weapon")
        assert weapons == [(77, 8, 2)] * 2
        names = await ask(
            db,
            "SELECT bungie_global_display_name, bungie_global_display_name_code FROM player"
            " ORDER BY membership_id",
        )
        assert names == [("Someone 1", "0001"), ("Someone 2", "0002")]
        assert await latest_stored(db) == 12_345_678_901

    on_tables(where, look)
    ((instance, text),) = asyncio.run(where.raw_rows())
    assert (instance, json.loads(text)) == (12_345_678_901, raw)


def test_what_nobody_can_know_is_null(where: StoreSet) -> None:
    stored(where, [report(period="2021-06-01T00:00:00Z")])

    async def look(db: Relational) -> None:
        assert await ask(db, "SELECT fresh, flawless FROM instance") == [(None, None)]
        assert await ask(db, "SELECT clears, fresh_clears FROM player_stats") == [(1, 0)]

    on_tables(where, look)


def test_what_comes_again_changes_nothing(where: StoreSet) -> None:
    raws = raids(30)
    assert stored(where, raws + raws[10:20]) == StoringCounts(stored=30, repeated=10)
    before, reports = asyncio.run(where.contents()), asyncio.run(where.raw_rows())
    changed = [raw | {"activityWasStartedFromBeginning": False} for raw in raws]
    assert stored(where, changed) == StoringCounts(repeated=30)
    assert asyncio.run(where.contents()) == before
    assert asyncio.run(where.raw_rows()) == reports
    assert len(reports) == 30


def test_the_tables_are_the_same_in_whatever_order_the_instances_came(
    where: StoreSet, tmp_path: Path
) -> None:
    made = instances(raids(60))
    shuffled = random.Random(4).sample(made, len(made))

    async def fill(target: Path | str, batch: int, order: list[Any]) -> None:
        async with opened_instances(target) as db:
            for at in range(0, len(order), batch):
                await store_instances(db, order[at : at + batch])

    async def run() -> tuple[Any, Any]:
        other = embedded_set(tmp_path / "other")
        await fill(where.instances, 7, shuffled)
        await fill(other.instances, 60, made)
        return await where.contents(), await other.contents()

    mine, others = asyncio.run(run())
    for name, rows in mine.items():
        assert len(rows) == len(others[name]) > 0, name
    assert _plain(mine) == _plain(others)


def _plain(contents: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Alike for both dialects: instants as seconds, sums and booleans as numbers."""

    def plain(cell: Any) -> Any:
        if hasattr(cell, "timestamp") or (isinstance(cell, str) and cell.endswith("+00:00")):
            return from_db(cell)
        return cell if cell is None or isinstance(cell, str) else int(cell)

    return {
        name: sorted((tuple(map(plain, row)) for row in rows), key=repr)
        for name, rows in contents.items()
    }


def test_sums_are_those_of_a_plain_count(where: StoreSet) -> None:
    raws = raids(40)
    stored(where, raws)
    clears: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for made in instances(raws):
        for player in made.players:
            if player.completed:
                cleared = (made.date_completed.timestamp(), made.instance_id)
                clears.setdefault((player.membership_id, made.hash), []).append(cleared)

    async def look(db: Relational) -> None:
        rows = await ask(
            db,
            "SELECT membership_id, hash, clears, first_clear_instance_id FROM player_stats"
            " WHERE clears > 0",
        )
        assert {row[:2]: row[2:] for row in rows} == {
            key: (len(times), min(times)[1]) for key, times in clears.items()
        }

    on_tables(where, look)


def test_who_had_a_clear_is_a_sherpa_to_those_who_had_none(where: StoreSet) -> None:
    # Two hashes of one activity; the earlier run comes later.
    later = report(entry(1), entry(2), instance=20, activity=2964135793)
    earlier = report(entry(1), instance=30, period="2024-01-01T00:00:00Z")
    stored(where, [later])

    async def first(db: Relational) -> None:
        rows = await ask(db, "SELECT membership_id, first_clear, sherpas FROM instance_sherpa")
        assert sorted(rows) == [(MEMBER + 1, 1, 0), (MEMBER + 2, 1, 0)]

    on_tables(where, first)
    stored(where, [earlier])

    async def then(db: Relational) -> None:
        rows = await ask(
            db, "SELECT instance_id, membership_id, first_clear, sherpas FROM instance_sherpa"
        )
        assert sorted(rows) == [
            (20, MEMBER + 1, 0, 1),
            (20, MEMBER + 2, 1, 0),
            (30, MEMBER + 1, 1, 0),
        ]

    on_tables(where, then)


ODD_NAMES = ['"quoted"', "nul\0in it", "lone \ud83d half", "back\\slash 'n' %s :x", "ünï 🙂", ""]


def test_odd_text_survives(where: StoreSet) -> None:
    raws = []
    for number, name in enumerate(ODD_NAMES):
        odd = entry(number + 1)
        odd["player"]["destinyUserInfo"]["displayName"] = name
        raws.append(report(odd, instance=number + 1))
    assert stored(where, raws) == StoringCounts(stored=len(raws))

    async def look(db: Relational) -> None:
        rows = await ask(db, "SELECT display_name FROM player ORDER BY membership_id")
        assert [original(name) for (name,) in rows] == ODD_NAMES

    on_tables(where, look)
    kept = [json.loads(text) for _, text in asyncio.run(where.raw_rows())]
    assert kept == raws


def test_a_poison_message_costs_that_message_only(where: StoreSet) -> None:
    raws = raids(12)
    good = messages(raws)
    twice = store_message(report(entry(1), instance=5))
    twice["instance"]["players"] *= 2  # Only the database notices this one.
    no_raw = store_message(report(entry(1), instance=6)) | {"pgcr": None}
    wide = store_message(report(entry(1), instance=7))
    wide["instance"]["instance_id"] = 2**63
    bad = [twice, no_raw, wide, {"instance": None, "pgcr": {}}, {}, 12345]

    async def run() -> tuple[StoringCounts, int]:
        await where.publish([*good[:6], *bad, *good[6:]])
        async with (
            opened_instances(where.instances) as db,
            opened(where.raw) as tables,
            where.opened_queue() as queue,
        ):
            job = Storing(db, tables, SystemClock(), asyncio.Event(), SMALL)
            await job.run(queue, drain=True)
            return job.done, (await queue.counts()).poisoned

    assert asyncio.run(run()) == (StoringCounts(stored=12, put_aside=6), 6)
    assert stored(where, []) == StoringCounts()
    ids = [row[0] for row in asyncio.run(where.contents())["instance"]]
    assert sorted(ids) == list(range(1000, 1012))


def test_items_of_a_plain_api_are_kept_as_they_are(where: StoreSet) -> None:
    items = [{"id": n, "item": {"id": n, "text": f"\0 {n} \ud800"}} for n in range(20)]
    bad: list[Any] = [{"id": True, "item": {}}, {"id": 5}, {"id": -1, "item": {}}]

    async def run() -> tuple[StoringCounts, list[Any]]:
        await where.publish([*items, *bad, *items[3:7]])
        async with (
            opened_instances(where.instances) as db,
            opened(where.raw) as tables,
            where.opened_queue() as queue,
        ):
            job = Storing(db, tables, SystemClock(), asyncio.Event(), SMALL, ITEM)
            await job.run(queue, drain=True)
            return job.done, await tables.rows(Query("all", "SELECT id, raw_json FROM item_raw"))

    tally, rows = asyncio.run(run())
    assert tally == StoringCounts(stored=20, repeated=4, put_aside=3)
    kept = sorted((number, json.loads(text)) for number, text in rows)
    assert kept == [(one["id"], one["item"]) for one in items]


def test_a_hash_that_nobody_knows_is_stored_and_flagged_until_it_is_known(
    where: StoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(where, [report(activity=4242), report(instance=2)])

    async def flagged(db: Relational) -> None:
        assert await unknown_hashes(db, 10) == [4242]
        rows = await ask(db, "SELECT hash, activity, known FROM activity_hash WHERE hash = 4242")
        assert rows == [(4242, None, 0)]

    on_tables(where, flagged)
    told = [KnownHash(4242, "A New Raid", "standard")]
    monkeypatch.setattr(tables_of_instances, "known_hashes", lambda: told)

    async def known(db: Relational) -> None:
        assert await unknown_hashes(db, 10) == []
        assert await ask(db, "SELECT COUNT(*) FROM instance") == [(2,)]

    on_tables(where, known)


def test_two_that_store_the_same_at_once_store_it_once(where: StoreSet) -> None:
    made = instances(raids(80))

    async def fill(seed: int) -> int:
        dice = random.Random(seed)
        new = 0
        async with opened_instances(where.instances) as db:
            for at in range(0, 80, 8):
                batch = dice.sample(made[at : at + 8], 8)
                new += (await store_instances(db, batch)).new
        return new

    async def run() -> list[int]:
        return await asyncio.gather(fill(1), fill(2), fill(3))

    assert sum(asyncio.run(run())) == 80
    contents = asyncio.run(where.contents())
    took_part = sum(len(one.players) for one in made)
    assert len(contents["instance_player"]) == took_part
    assert sum(int(row[2]) for row in contents["player_stats"]) == took_part


def test_told_to_stop_it_ends_after_its_batches_and_the_rest_comes_later(where: StoreSet) -> None:
    async def run() -> tuple[int, int]:
        await where.publish(messages(raids(60)))
        async with (
            opened_instances(where.instances) as db,
            opened(where.raw) as tables,
            where.opened_queue() as queue,
        ):
            stop = asyncio.Event()
            job = Storing(db, tables, SystemClock(), stop, StoreLimits(batch=2))
            await job.run(queue, drain=False, on_progress=lambda tally: stop.set())
        rest = await where.drain()
        return job.done.stored, rest.stored

    first, rest = asyncio.run(run())
    assert 0 < first < 60
    assert first + rest == 60


def start_again(server: PostgresServer) -> None:
    """A killed server leaves children, and nobody can take its place before they have noticed."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return server.start()
        except RuntimeError:
            assert time.monotonic() < deadline, "the children stay"
            time.sleep(0.1)


@pytest.mark.slow
def test_a_database_that_is_away_is_waited_for_and_then_given_up(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_WAIT_SECONDS", 4.0)
    where = served_set(servers)
    limits = StoreLimits(batch=5, workers=1, patience=120.0, first_pause=0.05)

    async def back_again(db: Relational) -> StoringCounts:
        async with opened(where.raw) as tables, where.opened_queue() as queue:
            job = Storing(db, tables, SystemClock(), asyncio.Event(), limits)
            servers.postgres.kill()
            async with asyncio.TaskGroup() as group:
                group.create_task(job.run(queue, drain=True))
                group.create_task(asyncio.to_thread(start_again, servers.postgres))
            return job.done

    async def run() -> StoringCounts:
        await where.publish(messages(raids(10)))
        async with opened_instances(where.instances) as db:
            return await back_again(db)

    assert asyncio.run(run()).stored == 10

    async def never() -> None:
        await where.publish(messages(raids(10, first=5000)))
        async with (
            opened_instances(where.instances) as db,
            opened(where.raw) as tables,
            where.opened_queue() as queue,
        ):
            servers.postgres.kill()
            try:
                hurried = StoreLimits(patience=0.0)
                job = Storing(db, tables, SystemClock(), asyncio.Event(), hurried)
                with pytest.raises(TablesUnreachable):
                    await job.run(queue, drain=True)
            finally:
                await asyncio.to_thread(start_again, servers.postgres)

    asyncio.run(never())
    assert asyncio.run(where.drain()).stored == 10, "nothing was acked meanwhile"


def test_a_crawl_and_a_store_meet_at_their_servers(servers: Servers, tmp_path: Path) -> None:
    """As users run them: the queue and the tables are URLs, and nothing else is shared."""
    where = served_set(servers)
    raised = Traffic(seed=4, rate=50.0, wave=0.0, raid_share=0.5, hole_share=0.0)
    first, until = raised.first_id, raised.first_id + 120

    async def main() -> tuple[Ran, Ran]:
        world = await serve_ids(
            4, manifest=tmp_path / "m.json", clock=SystemClock(), traffic=raised, age=600.0
        )
        crawl = (
            *("ids", "crawl", "-w", tmp_path / "crawl", "--base-url", world.base_url),
            *("--target", first, "--buffer", 0, "--max-rps", 200, "--until", until),
            *("--allow-private-hosts", "--queue", where.queue),
        )
        store = (
            *("ids", "store", "-w", tmp_path / "store", "--drain", "--json"),
            *("--queue", where.queue, "--postgres", where.store),
        )
        try:
            crawled = await asyncio.to_thread(trawlnet, *crawl)
            return crawled, await asyncio.to_thread(trawlnet, *store)
        finally:
            await world.close()

    crawled, stored = asyncio.run(main())
    assert crawled.code == 4, crawled.err
    assert stored.code == 0, stored.err
    assert not (tmp_path / "crawl" / "spool").exists()

    async def look(db: Relational) -> None:
        rows = await ask(db, f"SELECT instance_id FROM instance WHERE instance_id < {until}")
        raids = [i for i in range(first, until) if raised.is_raid(i)]
        assert sorted(row[0] for row in rows) == raids

    on_tables(where, look)
