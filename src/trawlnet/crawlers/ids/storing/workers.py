"""Queue workers: store each published message once, despite crashes.

A message is acked when both stores have it for good. The raw report goes first: when the process
dies between the two, the message comes again, the report is found there, and the instance is added.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from trawlnet.crawlers.ids.storing.messages import REPORT, MessageKind, ParsedMessage
from trawlnet.engine.ports import Clock
from trawlnet.malformed import Malformed
from trawlnet.queues.queue import Delivery, Queue
from trawlnet.tables.clickhouse.ports import Tables
from trawlnet.tables.clickhouse.raw import insert_raw
from trawlnet.tables.errors import TablesBusy, TablesRefused, TablesUnreachable
from trawlnet.tables.instances.instances import store_instances
from trawlnet.tables.relational.database import Relational

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    workers: int = 2  # While one batch is with the one store, the next is with the other.
    batch: int = 100  # Messages stored together, at most.
    patience: float = 60.0  # Seconds without a store after which the run gives up.
    first_pause: float = 0.5  # Seconds before the second try; doubles up to the longest.
    longest_pause: float = 5.0


@dataclass(slots=True)
class StoringCounts:
    """The counts of one run."""

    stored: int = 0
    repeated: int = 0  # Messages that were stored before.
    put_aside: int = 0  # Messages that could not be parsed, now in the poison queue.


class Storing:
    """`await Storing(...).run(queue)`; stopped by its event between two batches."""

    def __init__(
        self,
        db: Relational,
        tables: Tables,
        clock: Clock,
        stop: asyncio.Event,
        limits: StoreLimits | None = None,
        kind: MessageKind = REPORT,
    ) -> None:
        self._kind = kind
        self._db = db
        self._tables = tables
        self._clock = clock
        self._stop = stop
        self._limits = limits or StoreLimits()
        # Reading which reports exist and adding the others must not interleave.
        self._raw = asyncio.Lock()
        self.done = StoringCounts()

    async def run(
        self,
        queue: Queue,
        *,
        drain: bool,
        on_progress: Callable[[StoringCounts], None] = lambda tally: None,
    ) -> None:
        """Run until stopped, or until the queue is empty. Raises TablesError and SinkError;
        messages without an ack are delivered again."""
        limits = self._limits
        inbox = DeliveryBatches(limits.batch)
        workers = [self._work(inbox, on_progress) for _ in range(limits.workers)]
        async with aclosing(
            queue.consume(limits.batch * (limits.workers + 1), drain=drain)
        ) as deliveries:

            async def read() -> None:
                async for delivery in deliveries:
                    await inbox.put(delivery)
                await inbox.close(forget=False)

            async def heed() -> None:
                await self._stop.wait()
                await inbox.close(forget=True)

            await _until_done(workers, beside=[read(), heed()])

    async def _work(
        self, inbox: DeliveryBatches, on_progress: Callable[[StoringCounts], None]
    ) -> None:
        while batch := await inbox.take(self._limits.batch):
            await self._settle(batch)
            on_progress(self.done)

    async def _settle(self, batch: Sequence[Delivery]) -> None:
        sound: list[_Parcel] = []
        for delivery in batch:
            try:
                sound.append(_Parcel(delivery, self._kind.read(delivery.body)))
            except Malformed as error:
                await self._put_aside(delivery, str(error))
        if sound:
            await self._store(sound)

    async def _store(self, parcels: Sequence[_Parcel]) -> None:
        try:
            await self._patiently(parcels)
        except TablesRefused as refused:
            # Store them one by one, to find the one that fails.
            if len(parcels) == 1:
                await self._put_aside(parcels[0].delivery, refused.message)
            else:
                for parcel in parcels:
                    await self._store([parcel])
            return
        # Together, so that a spool saves its bookmark once for all.
        await asyncio.gather(*(parcel.delivery.ack() for parcel in parcels))

    async def _patiently(self, parcels: Sequence[_Parcel]) -> None:
        """Wait for a store that does not answer for a moment."""
        limits = self._limits
        pause, end = limits.first_pause, self._clock.now() + limits.patience
        while True:
            try:
                return await self._in_both(parcels)
            except (TablesUnreachable, TablesBusy) as away:
                if self._clock.now() + pause > end or self._stop.is_set():
                    raise
                fields = {"error": away.message, "again_in": pause}
                log.warning("store unreachable", extra=fields)
            await self._clock.sleep(pause)
            pause = min(limits.longest_pause, pause * 2)

    async def _in_both(self, parcels: Sequence[_Parcel]) -> None:
        read = [parcel.read for parcel in parcels]
        async with self._raw:
            bodies = {one.number: one.raw for one in read}
            added = await insert_raw(self._tables, self._kind.table, bodies)
        instances = [one.instance for one in read if one.instance is not None]
        if instances:
            added = (await store_instances(self._db, instances)).new
        self.done.stored += added
        self.done.repeated += len(parcels) - added

    async def _put_aside(self, delivery: Delivery, why: str) -> None:
        log.warning("message put aside", extra={"place": delivery.place, "why": why[:200]})
        await delivery.put_aside(why)
        self.done.put_aside += 1


class _Parcel(NamedTuple):
    delivery: Delivery
    read: ParsedMessage


async def _until_done(
    workers: Sequence[Coroutine[Any, Any, None]], beside: Sequence[Coroutine[Any, Any, None]]
) -> None:
    """Wait until all workers have ended, or until the first error."""
    try:
        async with asyncio.TaskGroup() as group:
            companions = [group.create_task(one) for one in beside]
            await asyncio.gather(*(group.create_task(one) for one in workers))
            for companion in companions:
                companion.cancel()
    except BaseExceptionGroup as troubles:
        raise troubles.exceptions[0] from None


class DeliveryBatches:
    """`take` returns all messages that have gathered, up to a limit: batches grow with the load."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._waiting: deque[Delivery] = deque()
        self._closed = False
        self._changed = asyncio.Condition()

    async def put(self, delivery: Delivery) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < self._room or self._closed)
            if not self._closed:
                self._waiting.append(delivery)
                self._changed.notify_all()

    async def take(self, most: int) -> list[Delivery]:
        """At least one message, unless it is closed and empty."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._changed.notify_all()
            return taken

    async def close(self, *, forget: bool) -> None:
        """No more messages come. Waiting ones are still returned, unless `forget` is set."""
        async with self._changed:
            self._closed = True
            if forget:
                self._waiting.clear()
            self._changed.notify_all()
