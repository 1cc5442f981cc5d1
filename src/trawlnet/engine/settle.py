"""The settler: writes the items of gathered outcomes, then settles them in one commit."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.engine.floor import Done, Floor
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Unstorable, Work
from trawlnet.engine.rules import judge

log = logging.getLogger(__name__)


async def settle(floor: Floor) -> None:
    """Write and settle all outcomes that have gathered, one commit for each batch."""
    slow = _Slow()
    while batch := await _take_batch(floor):
        if floor.limits.unsettled:
            await _settle_apart(floor, slow, batch)
        else:
            await settle_batch(floor, batch)
        floor.relief.set()


@dataclass(slots=True)
class _Slow:
    """Outcomes that wait for a slow sink."""

    unsettled: int = 0
    written: list[Done] = field(default_factory=list)  # Written outcomes that are not settled yet.
    recording: asyncio.Lock = field(default_factory=asyncio.Lock)


async def _settle_apart(floor: Floor, slow: _Slow, batch: Sequence[Done]) -> None:
    """Settle outcomes without items at once, while others wait for a sink that gathers items."""
    if light := [one for one in batch if not one.outcome.items]:
        await settle_batch(floor, light)
    if heavy := [one for one in batch if one.outcome.items]:
        while slow.unsettled and slow.unsettled + len(heavy) > floor.limits.unsettled:
            floor.relief.clear()
            await floor.relief.wait()
        slow.unsettled += len(heavy)
        floor.group.create_task(_settle_later(floor, slow, heavy))


async def _settle_later(floor: Floor, slow: _Slow, batch: Sequence[Done]) -> None:
    await _write(floor, batch)
    slow.written += batch
    async with slow.recording:
        # The sink completes many batches at once; the first coroutine to wake settles all of them.
        together, slow.written = slow.written, []
        if together:
            await _record_all(floor, together)
    slow.unsettled -= len(batch)
    floor.relief.set()


async def settle_batch(floor: Floor, batch: Sequence[Done]) -> None:
    # The sink has synced the items before the store removes their tasks.
    await _write(floor, batch)
    await _record_all(floor, batch)


async def _write(floor: Floor, batch: Sequence[Done]) -> None:
    items = [(one.task, one.outcome.items) for one in batch if one.outcome.items]
    if floor.parts.sink is not None:
        await floor.parts.sink.write(items)
    elif items:
        raise TypeError(f"{items[0][0].key}: items for a crawl that has no sink")


async def _record_all(floor: Floor, batch: Sequence[Done]) -> None:
    parts, now = floor.parts, floor.parts.clock.now()
    judged = [judge(one.task, one.outcome, floor.limits.retry, now) for one in batch]
    for lane, until in _holds(batch).items():
        await parts.store.hold(lane, until)
        log.info("lane held", extra={"lane": lane, "until": until})
    receipts = await _record(parts.store, judged)
    for receipt in receipts:
        floor.crew.settle(receipt.task)
        if receipt.next is not None:
            floor.agenda.count(receipt.next.lane, 1)
            floor.agenda.note(receipt.next.lane, receipt.next.due)
    if found := [task.lane for receipt in receipts for task in receipt.found]:
        for lane, tasks in Counter(found).items():
            floor.agenda.count(lane, tasks)
            floor.agenda.note(lane, 0.0)
    floor.figures.add_receipts(receipts, now)
    floor.control.changed.set()


async def _record(store: Work[Any], receipts: Sequence[Receipt[Any]]) -> Sequence[Receipt[Any]]:
    """Settle all receipts; one that no store can save costs only its own task."""
    try:
        await store.settle(receipts)
        return receipts
    except Unstorable:
        return [await _record_alone(store, receipt) for receipt in receipts]


async def _record_alone(store: Work[Any], receipt: Receipt[Any]) -> Receipt[Any]:
    try:
        await store.settle([receipt])
        return receipt
    except Unstorable as error:
        log.exception("unstorable receipt", extra={"key": receipt.task.key})
        detail = f"{type(error).__name__}: {error}"[:200]
        bare: Receipt[Any] = Receipt(receipt.task, Reason.UNKNOWN, detail=detail, at=receipt.at)
        await store.settle([bare])
        return bare


def _holds(batch: Sequence[Done]) -> Mapping[str, float]:
    holds: dict[str, float] = {}
    for one in batch:
        if one.hold > 0.0:
            holds[one.lane] = max(one.hold, holds.get(one.lane, 0.0))
    return holds


async def _take_batch(floor: Floor) -> list[Done]:
    """The outcomes that have gathered, at least one; an empty list means the end."""
    queue, limits = floor.done, floor.limits
    batch: list[Done] = []
    item = await queue.get()
    if item is not None and limits.linger and queue.qsize() < limits.batch:
        await floor.parts.clock.sleep(limits.linger)
    while item is not None:
        batch.append(item)
        if len(batch) == limits.batch or queue.empty():
            return batch
        item = queue.get_nowait()
    if batch:
        queue.put_nowait(None)  # The end comes after this batch.
    return batch
