"""What only the LMDB store promises: a map that grows, and trouble with disks and processes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import lmdb
import pytest

from tests.support.child import environment
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Ledger, Page
from trawlnet.engine.task import Task
from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.notes import open_notes
from trawlnet.stores.lmdb.store import LmdbStore
from trawlnet.stores.lmdb.tables import open_environment

NOW = 1_700_000_000.0
TINY_MAP_BYTES = 1 << 16


def run(tell: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(tell())


def page(first: int, number: int) -> Page:
    some = [Task(f"k{n}", f"lane{n % 5}", {"n": n}) for n in range(first, first + number)]
    return Page(some, str(first + number))


async def assert_consistent(store: Ledger, fed: int) -> None:
    """Every fed key is open or settled, and each open one can be leased."""
    counts = await store.counts()
    assert counts.remembered == counts.known == fed
    assert await store.cursor() == (str(fed) if fed else None)
    lease = await store.lease({f"lane{n}": fed for n in range(5)}, NOW, 60.0)
    assert len({task.key for task in lease.tasks}) == len(lease.tasks) == counts.open
    assert all(task.payload == {"n": int(task.key[1:])} for task in lease.tasks)


def test_the_map_grows_when_it_is_full(tmp_path: Path) -> None:
    async def tell() -> None:
        store = await LmdbStore.open(tmp_path, map_size=TINY_MAP_BYTES)
        for first in range(0, 6_000, 1_500):
            assert await store.feed(page(first, 1_500)) == 1_500
        tasks = (await store.lease({"lane0": 500}, NOW, 60.0)).tasks
        found = [[Task(f"f{n}", "found") for n in range(m, 5_000, 500)] for m in range(500)]
        await store.settle([Receipt(task, Reason.OK, found[m]) for m, task in enumerate(tasks)])
        counts = await store.counts()
        assert (counts.open, counts.known, counts.leased) == (10_500, 11_000, 0)
        assert counts.attempts == {Reason.OK: 500}
        await store.close()
        # The file is larger than this map by now.
        store = await LmdbStore.open(tmp_path, map_size=TINY_MAP_BYTES)
        assert (await store.counts()).known == 11_000
        assert await store.feed(page(6_000, 1_000)) == 1_000
        await store.close()

    run(tell)


def test_another_process_may_look_while_the_map_grows(tmp_path: Path) -> None:
    look = """
        import asyncio, sys
        from pathlib import Path
        from trawlnet.stores.lmdb.store import LmdbStore

        async def look():
            store = await LmdbStore.open(Path(sys.argv[1]), map_size=1 << 16)
            for line in sys.stdin:
                print((await store.counts()).known, flush=True)

        asyncio.run(look())
    """

    async def tell() -> None:
        store = await LmdbStore.open(tmp_path, map_size=TINY_MAP_BYTES)
        with child(look, str(tmp_path)) as looker:
            assert looker.stdin is not None and looker.stdout is not None
            for first in range(0, 9_000, 3_000):
                await store.feed(page(first, 3_000))
                looker.stdin.write(b"look\n")
                looker.stdin.flush()
                assert int(looker.stdout.readline()) == first + 3_000
            looker.stdin.close()
        await store.close()

    run(tell)


def test_the_map_may_grow_between_opening_it_and_its_first_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow = """
        import asyncio, sys
        from pathlib import Path
        from tests.contract.test_store_lmdb import page
        from trawlnet.stores.lmdb.store import LmdbStore

        async def grow():
            store = await LmdbStore.open(Path(sys.argv[1]), map_size=1 << 16)
            await store.feed(page(0, 3_000))
            await store.close()

        asyncio.run(grow())
    """

    def opened_and_overtaken(path: Path, map_size: int) -> Any:
        environment = open_environment(path, map_size)
        with child(grow, str(path)) as other:
            assert other.wait() == 0
        return environment

    async def tell() -> None:
        store = await LmdbStore.open(tmp_path, map_size=TINY_MAP_BYTES)
        assert (await store.counts()).known == 3_000
        await store.close()

    monkeypatch.setattr("trawlnet.stores.lmdb.store.open_environment", opened_and_overtaken)
    run(tell)


def test_a_killed_process_leaves_a_consistent_store(tmp_path: Path) -> None:
    crawl = """
        import asyncio, sys
        from pathlib import Path
        from tests.contract.test_store_lmdb import NOW, page
        from trawlnet.engine.outcome import Reason, Receipt
        from trawlnet.stores.lmdb.store import LmdbStore

        async def crawl():
            store = await LmdbStore.open(Path(sys.argv[1]), map_size=1 << 16)
            fed = int(await store.cursor() or 0)
            reasons = [Reason.OK, Reason.NOT_FOUND, Reason.TIMEOUT]
            while True:
                await store.feed(page(fed, 40))
                fed += 40
                lease = await store.lease({f"lane{n}": 6 for n in range(5)}, NOW, 60.0)
                await store.settle([
                    Receipt(task, reasons[n % 3], next=task.retried(NOW) if n % 3 == 2 else None)
                    for n, task in enumerate(lease.tasks)
                ])
                print(fed, sum((await store.counts()).attempts.values()), flush=True)

        asyncio.run(crawl())
    """
    for lines in (1, 3, 7):
        with child(crawl, str(tmp_path)) as victim:
            assert victim.stdout is not None
            said = [victim.stdout.readline() for _ in range(lines)]
            victim.send_signal(signal.SIGKILL)
            # It may have gone on for a while before the signal came.
            said += [line for line in victim.stdout if line.endswith(b"\n")]
        fed, attempts = map(int, said[-1].split())

        async def check(fed: int = fed, attempts: int = attempts) -> None:
            store = await LmdbStore.open(tmp_path)
            counts = await store.counts()
            # What was confirmed is there; a last batch may be there unconfirmed, but whole.
            assert counts.known - fed in (0, 40)
            assert sum(counts.attempts.values()) - attempts in (0, 30)
            assert counts.leased == 0
            await assert_consistent(store, counts.known)
            await store.close()

        run(check)


def test_a_full_disk_is_one_error_and_loses_nothing(tmp_path: Path) -> None:
    # A limit on the size of files stands for the full disk: it needs no mount and no rights.
    fill = """
        import asyncio, resource, sys
        from pathlib import Path
        from tests.contract.test_store_lmdb import assert_consistent, page
        from trawlnet.stores.errors import StoreError
        from trawlnet.stores.lmdb.store import LmdbStore

        async def fill():
            path = Path(sys.argv[1])
            store = await LmdbStore.open(path)
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
            fed = 0
            try:
                while True:
                    await store.feed(page(fed, 500))
                    fed += 500
            except StoreError as error:
                print(error.message, "|", error.hint)
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            await store.close()
            store = await LmdbStore.open(path)
            await assert_consistent(store, fed)
            assert await store.feed(page(fed, 500)) == 500
            await store.close()
            print(fed)

        asyncio.run(fill())
    """
    with child(fill, str(tmp_path)) as filler:
        output, _ = filler.communicate(timeout=120)
    message, fed = output.decode().splitlines()
    assert message.startswith(f"the disk of {tmp_path} is full or failing: ")
    assert "| free some space" in message
    assert int(fed) >= 500


@pytest.mark.parametrize("content", [b"not a database at all" * 500, b"\0" * 9_000])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    assert_refused(tmp_path, "does not hold a trawlnet store")
    assert (tmp_path / "data.mdb").read_bytes() == content


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as other, other.begin(write=True) as txn:
        txn.put(b"their", b"data")
    assert_refused(tmp_path, "does not hold a trawlnet store")
    with lmdb.open(str(tmp_path)) as other, other.begin() as txn:
        assert txn.stat()["entries"] == 1


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    async def make() -> None:
        await (await LmdbStore.open(tmp_path)).close()

    run(make)
    with lmdb.open(str(tmp_path), max_dbs=16) as newer, newer.begin(write=True) as txn:
        txn.put(b"format", b"trawlnet store 999", db=newer.open_db(b"meta", txn=txn))
    assert_refused(tmp_path, "trawlnet store 999")


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(tmp_path / "file", "cannot open the store")


def test_one_folder_is_opened_once_in_a_process(tmp_path: Path) -> None:
    async def tell() -> None:
        store = await LmdbStore.open(tmp_path)
        with pytest.raises(StoreError, match="already open"):
            await LmdbStore.open(tmp_path)
        assert await store.feed(page(0, 3)) == 3
        await store.close()

    run(tell)


def assert_refused(path: Path, message: str) -> None:
    with pytest.raises(StoreError, match=message) as refused:
        asyncio.run(LmdbStore.open(path))
    assert refused.value.hint


def child(source: str, *args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )


@pytest.mark.parametrize(
    ("is_only_copy", "hint"), [(False, "and are rebuilt"), (True, "there is no other copy")]
)
def test_notes_that_cannot_be_written_say_whether_they_may_be_lost(
    is_only_copy: bool, hint: str, tmp_path: Path
) -> None:
    notes = open_notes(tmp_path, is_only_copy=is_only_copy)
    table = notes.table("some")
    with pytest.raises(StoreError) as refused, notes.writing(table) as txn:
        txn.put(b"k" * 10_000, b"")
    notes.close()
    assert hint in refused.value.hint
