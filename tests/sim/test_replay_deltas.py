"""Archives with deltas into tables: what was deleted leaves them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.repos.living import LivingArchive, texts
from tests.support.repos.made_segments import NOW
from trawlnet.archive.compact import compact
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import Replay, ReplayCounts
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query, Tables

ALL = Query("all", "SELECT repo, collection, rkey, record_json FROM repo_records ORDER BY ALL")


async def replayed(tables: Tables, place: Path) -> ReplayCounts:
    replay = Replay(tables, CollectionFilter(()), asyncio.Event())
    await replay.run(place, 2)
    return replay.done


def rows_of(past: LivingArchive) -> list[tuple[str, ...]]:
    return sorted(
        (life.did, *path.split("/"), text.decode())
        for life in past.lives
        for path, text in texts(life.truth).items()
    )


async def rows_in(tables: Tables) -> list[tuple[str, ...]]:
    return [tuple(row) for row in await tables.rows(ALL)]


@pytest.mark.slow
def test_each_replay_brings_the_table_to_what_repositories_have_become(tmp_path: Path) -> None:
    past = LivingArchive(tmp_path / "archive", 2)

    async def run() -> None:
        async with opened(tmp_path / "tables") as tables:
            before = rows_of(past)
            await replayed(tables, past.folder)
            assert await rows_in(tables) == before
            for is_compacted in (False, True, False):
                past.go_on()
                if is_compacted:
                    compact(past.folder, lambda: NOW)
                done = await replayed(tables, past.folder)
                assert not done.damage
                after = rows_of(past)
                assert set(before) - set(after), "something was deleted"
                assert await rows_in(tables) == after
                before = after

    asyncio.run(run())
