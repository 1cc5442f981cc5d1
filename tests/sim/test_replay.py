"""Archives into tables: exact counts, whatever is repeated, cut short or damaged."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.repos.archive_rows import (
    NOW,
    blocks_of,
    entries_of,
    made_repos,
    rows_of,
    write_segment,
)
from trawlnet.archive.format import rca
from trawlnet.archive.reader import NoArchive
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.crawlers.repos.replay import reading, unpack
from trawlnet.crawlers.repos.replay.reading import CollectionFilter
from trawlnet.crawlers.repos.replay.replay import Replay
from trawlnet.tables.clickhouse import records
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query
from trawlnet.tables.errors import TablesError

ALL = Query(
    "all",
    "SELECT repo, collection, rkey, record_json, time_us FROM repo_records ORDER BY ALL",
)


async def replayed(tables, place, *, globs=(), workers=2, stop=None, progress=lambda size: None):
    replay = Replay(tables, CollectionFilter(globs), stop or asyncio.Event(), progress)
    await replay.run(place, workers)
    return replay.done


def with_tables(test, tmp_path):
    async def run():
        async with opened(tmp_path / "tables") as tables:
            await test(tables)

    asyncio.run(run())


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(reading, "_ROWS", 50)
    monkeypatch.setattr(unpack, "_ROWS", 7)


def test_every_record_arrives_once_and_a_second_replay_reads_nothing(tmp_path, small_batches):
    repos = made_repos(1, 40)
    blocks = blocks_of(repos)
    for number in range(4):
        write_segment(tmp_path / f"a/segment_{number + 1:04}.rca", blocks[number::4])

    async def test(tables):
        seen = []
        done = await replayed(tables, tmp_path / "a", progress=seen.append)
        assert await tables.rows(ALL) == rows_of(repos)
        assert (done.segments, done.repos, done.records) == (4, 40, len(rows_of(repos)))
        total = sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
        assert total - 4 * rca.HEADER_SIZE <= sum(seen) <= total
        again = await replayed(tables, tmp_path / "a")
        assert (again.segments, again.skipped, again.records) == (0, 4, 0)
        ((count,),) = await tables.rows(Query("repos", "SELECT count() FROM replayed_repos FINAL"))
        assert count == 40, "repositories without records count, too"

    with_tables(test, tmp_path)


def test_the_table_has_the_columns_that_people_rely_on(tmp_path):
    write_segment(tmp_path / "a/segment_0001.rca", blocks_of(made_repos(2, 9)))

    async def test(tables):
        await replayed(tables, tmp_path / "a")
        columns = await tables.rows(
            Query(
                "columns",
                "SELECT name, type FROM system.columns WHERE table = 'repo_records' "
                "AND database = currentDatabase() ORDER BY position",
            )
        )
        assert columns == [
            ["repo", "String"],
            ["collection", "String"],
            ["rkey", "String"],
            ["operation", "Enum8('create' = 1, 'update' = 2, 'delete' = 3)"],
            ["record_json", "String"],
            ["created_at", "DateTime64(6)"],
            ["indexed_at", "DateTime64(6)"],
            ["time_us", "Int64"],
            ["is_deleted", "UInt8"],  # Not among what `SELECT *` gives.
        ]
        ((kinds, times, indexed),) = await tables.rows(
            Query(
                "values",
                "SELECT groupUniqArray(operation), "
                "groupUniqArray(toUnixTimestamp64Micro(created_at)), "
                "min(indexed_at) > '2020-01-01' FROM repo_records",
            )
        )
        assert (kinds, times, indexed) == (["create"], [NOW], 1)

    with_tables(test, tmp_path)


def test_only_wanted_collections_are_replayed_and_others_may_follow(tmp_path):
    repos = made_repos(3, 10)
    write_segment(tmp_path / "a/segment_0001.rca", blocks_of(repos))

    async def test(tables):
        await replayed(tables, tmp_path / "a", globs=["app.bsky.*"])
        expected = [row for row in rows_of(repos) if row[1].startswith("app.bsky.")]
        assert await tables.rows(ALL) == expected != rows_of(repos)
        await replayed(tables, tmp_path / "a", globs=["blue.*", "app.bsky.feed.like"])
        assert await tables.rows(ALL) == rows_of(repos)

    with_tables(test, tmp_path)


def test_a_newer_block_replaces_all_of_the_older_one(tmp_path):
    old, later = made_repos(4, 6), NOW + 1_000_000
    new = {did: made_repos(5, 6)[f"did:plc:0005{did[-20:]}"] for did in list(old)[:3]}
    write_segment(tmp_path / "a/segment_0001.rca", blocks_of(old))
    kept = {did: rows for did, rows in old.items() if did not in new}
    expected = sorted(rows_of(kept) + rows_of(new, later))

    async def test(tables):
        await replayed(tables, tmp_path / "a")
        write_segment(tmp_path / "a/segment_0002.rca", blocks_of(new, later))
        done = await replayed(tables, tmp_path / "a")
        assert (done.skipped, done.repeats) == (1, 3)
        assert await tables.rows(ALL) == expected
        await records.forget_records(tables)
        assert await tables.rows(ALL) == []
        once = await replayed(tables, tmp_path / "a")
        assert (once.repos, once.repeats) == (6, 0), "superseded blocks are not even read"
        assert await tables.rows(ALL) == expected

    with_tables(test, tmp_path)


def test_a_tombstone_takes_its_rows_away(tmp_path):
    repos = made_repos(6, 5)
    write_segment(tmp_path / "a/segment_0001.rca", blocks_of(repos))
    gone = next(did for did, rows in repos.items() if rows)

    async def test(tables):
        await replayed(tables, tmp_path / "a")
        append_tombstones(tmp_path / "a", [Tombstone(gone, "takendown", NOW + 5)])
        done = await replayed(tables, tmp_path / "a")
        assert done.removed == 1
        rest = rows_of({did: rows for did, rows in repos.items() if did != gone})
        assert await tables.rows(ALL) == rest
        assert (await replayed(tables, tmp_path / "a")).removed == 0

    with_tables(test, tmp_path)


class Interrupted(Exception):
    pass


class FailingTables:
    """Tables that stop working after a number of calls, as a killed process would."""

    def __init__(self, tables, calls):
        self._tables = tables
        self._calls = calls

    def __getattr__(self, name):
        method = getattr(self._tables, name)

        async def counted(*arguments):
            self._calls -= 1
            if self._calls < 0:
                raise Interrupted
            return await method(*arguments)

        return counted


@pytest.mark.slow
def test_however_often_it_is_cut_short_the_counts_are_exact(tmp_path, small_batches):
    repos = made_repos(7, 30)
    blocks = blocks_of(repos)
    for number in range(3):
        write_segment(tmp_path / f"a/segment_{number + 1:04}.rca", blocks[number::3])

    async def test(tables):
        cuts = 0
        for calls in range(1, 400, 3):
            try:
                await replayed(FailingTables(tables, calls), tmp_path / "a", workers=2)
            except Interrupted:
                cuts += 1
            else:
                break
        assert cuts > 5
        assert await tables.rows(ALL) == rows_of(repos)

    with_tables(test, tmp_path)


def test_a_stop_leaves_what_is_stored_and_the_rest_for_later(tmp_path, small_batches):
    repos = made_repos(8, 40)
    write_segment(tmp_path / "a/segment_0001.rca", blocks_of(repos))

    async def test(tables):
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        done = await replayed(
            tables,
            tmp_path / "a",
            stop=stop,
            progress=lambda size: loop.call_soon_threadsafe(stop.set),
        )
        assert done.segments == 0
        await replayed(tables, tmp_path / "a")
        assert await tables.rows(ALL) == rows_of(repos)

    with_tables(test, tmp_path)


def test_damage_is_named_and_costs_only_itself(tmp_path):
    repos = made_repos(9, 6)
    path = tmp_path / "a/segment_0001.rca"
    offsets = write_segment(path, blocks_of(repos))
    write_segment(tmp_path / "a/segment_0002.rca", blocks_of(made_repos(10, 2)))
    (tmp_path / "a/segment_0003.rca").write_bytes(b"not an archive at all" * 10)
    victim = next(n for n, rows in enumerate(repos.values()) if rows)
    body = bytearray(path.read_bytes())
    body[offsets[victim + 1] - 3] ^= 0xFF  # The end of the victim's data.
    path.write_bytes(body)
    sound = {did: rows for n, (did, rows) in enumerate(repos.items()) if n != victim}

    async def test(tables):
        for _ in range(2):  # Damage is told again: a damaged segment is never done with.
            done = await replayed(tables, tmp_path / "a")
            told = [str(one) for one in done.damage]
            assert any(f"{path}@{offsets[victim]}: block CRC" in one for one in told), told
            assert any("segment_0003.rca@0:" in one for one in told), told
            assert await tables.rows(ALL) == sorted(rows_of(sound) + rows_of(made_repos(10, 2)))

    with_tables(test, tmp_path)


def test_a_segment_that_is_still_written_is_replayed_and_looked_at_again(tmp_path):
    repos = made_repos(11, 8)
    blocks = blocks_of(repos)
    path = tmp_path / "a/segment_0001.rca"
    write_segment(path, blocks[:5], finalise=False)
    with path.open("ab") as file:
        file.write(blocks[5][1][:30])

    async def test(tables):
        done = await replayed(tables, tmp_path / "a")
        assert done.damage == []
        assert await tables.rows(ALL) == rows_of(dict(list(repos.items())[:5]))
        write_segment(path, blocks)
        await replayed(tables, tmp_path / "a")
        assert await tables.rows(ALL) == rows_of(repos)

    with_tables(test, tmp_path)


def test_nothing_to_replay_is_an_error_and_trouble_comes_as_itself(tmp_path):
    async def test(tables):
        with pytest.raises(NoArchive):
            await replayed(tables, tmp_path / "nowhere")
        write_segment(tmp_path / "a/segment_0001.rca", blocks_of(made_repos(12, 3)))
        await tables.run(Query("drop", "DROP TABLE repo_records"))
        with pytest.raises(TablesError, match="repo_records"):
            await replayed(tables, tmp_path / "a")

    with_tables(test, tmp_path)


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(max_size=40), st.binary(max_size=300)), max_size=30), st.data())
def test_unpacking_gives_the_columns_or_says_what_is_wrong(rows, data):
    rows = [*rows, ("k" * 20_000, b"j" * 20_000)]
    entries = entries_of(rows)
    pieces = list(unpack.unpack(entries, len(rows)))
    assert sum(piece.rows for piece in pieces) == len(rows)
    assert b"".join(piece.first for piece in pieces) == b"".join(
        unpack.varint(len(rkey.encode())) + rkey.encode() for rkey, _ in rows
    )
    assert b"".join(piece.second for piece in pieces) == b"".join(
        unpack.varint(len(text)) + text for _, text in rows
    )
    cut = data.draw(st.integers(0, len(entries) - 1))
    with pytest.raises(rca.RcaError):
        list(unpack.unpack(entries[:cut], len(rows)))
    with pytest.raises(rca.RcaError):
        list(unpack.unpack(entries, len(rows) - 1))
    with pytest.raises(rca.RcaError):
        list(unpack.unpack(entries, len(rows) + 1))
