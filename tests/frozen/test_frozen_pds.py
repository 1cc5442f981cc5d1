"""Registries that earlier code has written: told of, and scans carried on from where they were."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.frozen.commands import pds_words
from tests.frozen.ice import copies, thaw, thaw_postgres
from tests.frozen.story import check_story, done
from tests.frozen.worlds import COLLECTIONS, pds_world
from tests.support.pds.sim_world import PdsWorld
from tests.support.program import at_once
from tests.support.servers import postgres_server
from tests.support.world_thread import in_thread
from trawlnet.tables.relational.database import Statement
from trawlnet.tables.relational.open import open_relational

TABLES = ("eprints", "reviews", "endorsements", "tags", "records")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PdsWorld]:
    (tmp_path / "world").mkdir()
    with in_thread(pds_world(tmp_path / "world" / "log")) as served:
        yield served


def told(where: Path | str, sql: str) -> list[tuple[object, ...]]:
    async def main() -> list[tuple[object, ...]]:
        db = await open_relational(where)
        try:
            return await db.rows(Statement("told", sql))
        finally:
            await db.close()

    return asyncio.run(main())


def stored_since(where: Path | str) -> Callable[[Mapping[str, Any]], Mapping[str, int]]:
    """Records that a first scan has stored were counted as 0 until it ended: now as what is there,
    in `status` altogether and in `list` of each PDS."""
    every = (*TABLES, "invalid_records")
    sql = " UNION ALL ".join(f"SELECT pds_url, indexed_at FROM {table}" for table in every)
    rows = told(where, f"SELECT pds_url, COUNT(*), COUNT(indexed_at) FROM ({sql}) AS a GROUP BY 1")
    held = {url: (int(str(found)), int(str(indexed))) for url, found, indexed in rows}
    found, indexed = (sum(column) for column in zip(*held.values(), strict=True))

    def since(row: Mapping[str, Any]) -> Mapping[str, int]:
        if "chive_records" in row:
            return {"chive_records": found, "indexed_records": indexed}
        if row.get("pds_url") in held:
            one = held[row["pds_url"]]
            return {"chive_record_count": one[0], "indexed_record_count": one[1]}
        return {}

    return since


def finished(where: Path | str) -> set[object]:
    """DIDs whose records were all read and saved."""
    return {row[0] for row in told(where, "SELECT did FROM scan_repos WHERE is_pending = 0")}


def asked(world: PdsWorld, log: Path) -> Counter[str]:
    """How often records of each DID were asked for."""
    world.served._log.flush()
    paths = [urlsplit(json.loads(line)["path"]) for line in log.read_text().splitlines()]
    return Counter(parse_qs(p.query)["repo"][0] for p in paths if p.path.endswith("listRecords"))


def check(world: PdsWorld, folder: Path, where: Path | str, *more: object) -> None:
    since = stored_since(where)
    check_story("pds", folder, *more, verbs=("status", "list", "bans"), since=since)
    before = finished(where)
    assert before
    quick = ("--requests-per-minute", 60_000)
    done(at_once(*pds_words(world, folder), *quick, *more))
    uris = [row[0] for table in TABLES for row in told(where, f"SELECT uri FROM {table}")]
    invalid = [row[0] for row in told(where, "SELECT uri FROM invalid_records")]
    truth = [
        f"at://{did}/{collection}/{rkey}"
        for pds in world.pdses
        for did, repo in pds.repos.items()
        for collection in COLLECTIONS
        for rkey in repo.records[collection]
    ]
    assert sorted(uris + invalid) == sorted(truth) and invalid
    again = asked(world, folder.parent / "world" / "log")
    assert before & again.keys() == set(), "read to the end, and asked again"


@pytest.mark.parametrize("name", copies("pds-killed"))
def test_a_killed_scan_in_sqlite_is_told_of_and_carried_on(
    name: str, world: PdsWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    check(world, folder, folder / "state" / "pds" / "registry.db")


@pytest.mark.parametrize("name", copies("pds-postgres"))
def test_a_killed_scan_in_postgresql_is_told_of_and_carried_on(
    name: str, world: PdsWorld, tmp_path: Path
) -> None:
    folder = thaw(name, tmp_path / "w")
    with postgres_server() as server:
        thaw_postgres(folder, server.url)
        check(world, folder, server.url, "--registry", server.url)
