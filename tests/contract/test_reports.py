"""Figures for reports, out of SQLite and PostgreSQL alike, while others write."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.ids.sets import raids
from tests.support.pds.registry_rows import fill_registry
from trawlnet.crawlers.ids.pgcr.processor import process
from trawlnet.crawlers.pds.report import as_json
from trawlnet.tables.errors import TablesError
from trawlnet.tables.instances.instances import opened_instances, store_instances
from trawlnet.tables.instances.report import instance_figures
from trawlnet.tables.registry.registry import open_registry
from trawlnet.tables.registry.report import SoFar, held_so_far, registry_figures
from trawlnet.tables.registry.rules import PdsSource
from trawlnet.tables.relational.database import Statement
from trawlnet.tables.relational.open import open_relational
from trawlnet.tables.scanned.rows import (
    ListedRepo,
    RepoReading,
    ScanKey,
    ScannedRecord,
    ScanScope,
    Table,
    WalkProgress,
)
from trawlnet.tables.scanned.scanned import Scanned

NOW = 1_700_000_000.0


def test_instances_are_counted_by_activity_hour_and_kind(where: Path | str):
    async def run() -> None:
        async with opened_instances(where) as db:
            instances = [process(raw) for raw in raids(30)]
            await store_instances(db, instances)
            # Somebody is in the middle of storing more.
            async with db.transaction() as writing:
                await writing.run(Statement("touch", "UPDATE instance SET score = score + 1"))
                figures = await instance_figures(where)
        assert figures is not None
        assert figures.instances == 30 == sum(figures.activities.values())
        assert sum(figures.hours.values()) == 30
        assert figures.completed == sum(one.completed for one in instances)
        assert figures.fresh == sum(one.fresh is True for one in instances)
        assert figures.fresh_known == sum(one.fresh is not None for one in instances)
        assert figures.players == sum(one.player_count for one in instances)
        ended = {int(one.date_completed.timestamp()) // 3600 for one in instances}
        assert figures.hours.keys() == ended
        assert any(name.startswith("hash 4242") for name in figures.activities)

    asyncio.run(run())


def record(n: int, collection: str) -> ScannedRecord:
    uri = f"at://did:plc:x/{collection}/{n}"
    return ScannedRecord(
        Table.RECORDS, uri, "cid", "did:plc:x", str(n), collection, "{}", is_indexed=True
    )


def test_a_registry_is_told_with_the_records_of_its_scans(where: Path | str):
    async def run() -> None:
        registry = await open_registry(where)
        try:
            await fill_registry(registry, NOW, 60)
            before = await registry_figures(where, NOW)
            assert before is not None and before.records == {}
            assert await held_so_far(registry.db) == {}, "before the first scan"
            tables = Scanned(registry.db)
            await tables.migrate()
            url = "https://pds.village.social"
            await registry.register(url, PdsSource.USER, now=NOW)
            assert await registry.claim_one(url, NOW, 60.0, "me")
            place = ScanKey(url, ScanScope("s", lambda collection: True), "me")
            reading = RepoReading("did:plc:x", "rev", 1, ("a.b.c",))
            await tables.list_page(
                place, [ListedRepo("did:plc:x", "rev")], WalkProgress(walk=1, is_open=True), (), NOW
            )
            await tables.put_records(place, [record(n, "a.b.c") for n in range(3)], reading, NOW)
            after = await registry_figures(where, NOW)
            assert await held_so_far(registry.db) == {url: SoFar(3, 3)}
        finally:
            await registry.close()
        assert after is not None
        assert after.records == {"a.b.c": 3}
        assert after.stats.total == 61 and len(after.largest) == 25
        told = as_json(after)
        assert sum(told["by_status"].values()) == 61 == sum(told["by_source"].values())
        assert told["scans"] and told["largest"][0]["records"] >= told["largest"][1]["records"]

    asyncio.run(run())


def test_looking_makes_no_file_and_changes_none(tmp_path: Path):
    async def run() -> None:
        assert await instance_figures(tmp_path / "none.db") is None
        assert await registry_figures(tmp_path / "none.db", NOW) is None
        async with opened_instances(tmp_path / "t.db"):
            pass
        db = await open_relational(tmp_path / "t.db", readonly=True)
        with pytest.raises(TablesError):
            await db.run(Statement("drop", "DROP TABLE instance"))
        await db.close()

    asyncio.run(run())
    assert not (tmp_path / "none.db").exists()
