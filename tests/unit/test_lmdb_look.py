"""Looking at a store does not wait for the process that writes to it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path

import lmdb

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.stores.lmdb.store import LmdbStore
from trawlnet.stores.open import open_store


def _write_for_ever(folder: str, begun: multiprocessing.synchronize.Event) -> None:
    with lmdb.open(folder, max_dbs=32).begin(write=True):
        begun.set()
        signal.pause()


async def _made(folder: Path) -> None:
    store = await LmdbStore.open(folder)
    await store.feed(Page([Task("good", "host"), Task("bad", "host")], "1"))
    for task in (await store.lease({"host": 9}, 1.0, 9.0)).tasks:
        reason = Reason.OK if task.key == "good" else Reason.NOT_FOUND
        await store.settle([Receipt(task, reason, at=2.0)])
    await store.close()


def test_a_process_frozen_in_a_write_holds_nobody_up(tmp_path: Path) -> None:
    asyncio.run(_made(tmp_path))
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    writer = context.Process(target=_write_for_ever, args=(str(tmp_path), begun))
    writer.start()
    try:
        assert begun.wait(60.0)

        async def look() -> list[str]:
            store = await open_store(tmp_path, begin=False)
            try:
                assert (await store.counts()).settled == {Reason.OK: 1, Reason.NOT_FOUND: 1}
                return [failure.key async for failure in store.failures()]
            finally:
                await store.close()

        assert asyncio.run(asyncio.wait_for(look(), 60.0)) == ["bad"]
    finally:
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()


def test_whoever_looked_may_write(tmp_path: Path) -> None:
    async def main() -> None:
        await _made(tmp_path)
        store = await open_store(tmp_path, begin=False)
        assert await store.retry() == 1
        assert (await store.counts()).open == 1
        await store.close()

    asyncio.run(main())
