"""Embedded tables that are read while another process, or this one, writes them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import child
from trawlnet.tables.clickhouse import snapshot
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query
from trawlnet.tables.errors import TablesError

# A process of its own, since one process has one folder of tables open.
READER = """
import asyncio, sys
from pathlib import Path
from trawlnet.tables.clickhouse.open import opened_to_read
async def read():
    async with opened_to_read(Path(sys.argv[1])) as tables:
        async for piece in tables.stream(sys.argv[2], "TabSeparated"):
            sys.stdout.buffer.write(piece)
            sys.stdout.flush()
        if len(sys.argv) > 3:
            sys.stdin.read()
asyncio.run(read())
"""
MAKE = Query(
    "make",
    "CREATE TABLE IF NOT EXISTS things (n UInt64) ENGINE = ReplacingMergeTree ORDER BY n",
)
SUM = "SELECT count(), sum(n) FROM things"


def ask(folder: Path, sql: str = SUM) -> str:
    done = subprocess.run(
        [sys.executable, "-c", READER, folder, sql],
        env=child.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def add(n: int) -> Query:
    return Query("add", f"INSERT INTO things SELECT {n}")


@pytest.mark.slow
def test_tables_are_read_while_they_are_open_and_stay_as_they_are(tmp_path):
    folder = tmp_path / "tables"

    async def test():
        async with opened(folder) as tables:
            await tables.run(MAKE)
            for n in range(20):
                await tables.run(add(n))
            before = files_of(folder)
            assert await asyncio.to_thread(ask, folder) == "20\t190"
            assert before.items() <= files_of(folder).items(), "a reader changes no file"
            await tables.run(add(100))
            await tables.run(Query("merge", "OPTIMIZE TABLE things FINAL"))
            assert await asyncio.to_thread(ask, folder) == "21\t290"
            assert list((folder / "snapshots").iterdir()) == []
            assert await tables.rows(Query("sum", SUM)) == [[21, 290]]

    asyncio.run(test())


@pytest.mark.slow
def test_a_snapshot_of_tables_that_are_written_and_merged_has_every_row_of_before(tmp_path):
    folder = tmp_path / "tables"

    async def test():
        async with opened(folder) as tables:
            await tables.run(MAKE)
            await tables.run(add(0))
            asked, written = asyncio.create_task(asyncio.to_thread(look)), 0
            while not asked.done():
                written += 1
                await tables.run(add(written))
                if written % 7 == 0:
                    await tables.run(Query("merge", "OPTIMIZE TABLE things FINAL"))
                least.append(written)
            await asked

    least = [0]

    def look() -> None:
        for _ in range(4):
            there = least[-1] + 1
            count, total = map(int, ask(folder).split())
            assert count >= there, "what was written before is there"
            assert total == count * (count - 1) // 2, "and nothing twice"

    asyncio.run(test())


@pytest.mark.slow
def test_what_a_killed_reader_left_goes_with_the_next_one(tmp_path):
    folder = tmp_path / "tables"

    async def make():
        async with opened(folder) as tables:
            await tables.run(MAKE)
            await tables.run(add(5))

    asyncio.run(make())
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, folder, SUM, "wait"],
        env=child.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert reader.stdout is not None and reader.stdout.readline() == "1\t5\n"
        assert ask(folder) == "1\t5", "two may read at once"
        assert len(list((folder / "snapshots").iterdir())) == 1, "it is in use"
    finally:
        os.kill(reader.pid, signal.SIGKILL)
        reader.communicate()
    assert ask(folder) == "1\t5"
    assert list((folder / "snapshots").iterdir()) == []


def test_files_that_vanish_meanwhile_are_looked_for_anew_but_not_for_ever(tmp_path, monkeypatch):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "f").write_text("x")
    copied, left = snapshot.shutil.copyfile, [2]

    def copyfile(source, target):
        if left[0]:
            left[0] -= 1
            raise FileNotFoundError(source)
        return copied(source, target)

    monkeypatch.setattr(snapshot.shutil, "copyfile", copyfile)
    with snapshot.snapshot_of(tmp_path) as place:
        assert (place / "store" / "f").read_text() == "x"
    left[0] = 1_000
    with pytest.raises(TablesError, match="change too fast"), snapshot.snapshot_of(tmp_path):
        pass
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_a_listing_that_missed_a_part_and_shows_a_later_one_is_not_believed(tmp_path, monkeypatch):
    table = tmp_path / "store" / "abc" / "abcdef"
    table.mkdir(parents=True)
    listed = os.scandir

    @contextlib.contextmanager
    def scandir(folder):
        with listed(folder) as entries:
            seen = list(entries)
        if folder == table and not seen:  # Two parts are written while it is listed.
            for number in (1, 2):
                (table / f"all_{number}_{number}_0").mkdir()
            with listed(folder) as entries:
                seen = [entry for entry in entries if entry.name == "all_2_2_0"]
        yield iter(seen)

    monkeypatch.setattr(snapshot.os, "scandir", scandir)
    with snapshot.snapshot_of(tmp_path) as place:
        parts = sorted(path.name for path in (place / "store" / "abc" / "abcdef").iterdir())
    assert parts == ["all_1_1_0", "all_2_2_0"]


def files_of(folder: Path) -> dict[Path, str]:
    """Of parts: what else the engine has there is its own."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.glob("store/*/*/all_*/*")
    }
