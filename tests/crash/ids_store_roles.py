"""Queue workers of ids for the nursery: sound ones, and one that acks before it stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

# Loaded once here, and not anew in each child; chDB, which does not live through a fork, is not.
import clickhouse_connect  # noqa: F401

from tests.support.ids.sets import StoreSet
from trawlnet.crawlers.ids.storing import workers
from trawlnet.crawlers.ids.storing.workers import StoreLimits, Storing
from trawlnet.net.clock import SystemClock
from trawlnet.queues import spool_reader
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.raw import insert_raw
from trawlnet.tables.instances.instances import opened_instances, store_instances
from trawlnet.tables.relational import postgres  # noqa: F401

LIMITS = StoreLimits(workers=2, batch=4)


async def eager(folder: Path) -> None:
    """What must not be: messages are forgotten before they are stored. A kill comes in between."""

    class EagerStoring(Storing):
        async def _store(self, parcels: Sequence[Any]) -> None:
            await asyncio.gather(*(parcel.delivery.ack() for parcel in parcels))
            _mark(folder / "exposed")
            await asyncio.sleep(3600)

    await store(folder, EagerStoring)


async def store(folder: Path, kind: type[Storing] = Storing, drain: bool = False) -> None:
    spool_reader.SAVE_EVERY = 1
    note = _noting(folder / "steps")
    workers.insert_raw = note(insert_raw)
    workers.store_instances = note(store_instances)
    where = StoreSet.load(folder / "set.json")
    async with (
        opened_instances(where.instances) as db,
        opened(where.raw) as tables,
        where.opened_queue() as queue,
    ):
        job = kind(db, tables, SystemClock(), asyncio.Event(), LIMITS)
        await job.run(queue, drain=drain)


def _noting(file: Path) -> Callable[[Callable[..., Awaitable[Any]]], Any]:
    """Each step leaves a byte before and after, for the one who kills to count."""

    def wrap(step: Callable[..., Awaitable[Any]]) -> Any:
        async def noted(*given: Any) -> Any:
            _mark(file)
            done = await step(*given)
            _mark(file)
            return done

        return noted

    return wrap


def _mark(file: Path) -> None:
    with file.open("ab") as log:
        log.write(b".")


ROLES = {
    "storer": store,
    "eager": eager,
    "last": lambda folder: store(folder, drain=True),
}
