"""The work of a crawl of ids: askers choose the tasks, the ledger records their results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trawlnet.crawlers.ids.ledger.askers import Askers, PendingRequest
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.model import LedgerEntry, later
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, LaneWork, Lease, Work
from trawlnet.engine.task import Task

_LOOK_EVERY = 1.0  # Seconds between two calls of askers that named no time.


class IdsWork:
    """One lane. Leases are in memory: only this process writes the ledger, and after its death all
    unsettled ids are pending."""

    def __init__(self, ledger: IdsLedger, askers: Askers) -> None:
        self.ledger = ledger
        self._askers = askers
        # By number, with the end of the lease; the one that ends first is the first.
        self._leases: dict[int, tuple[PendingRequest, float]] = {}

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        lane = self.ledger.lane
        return [] if after is not None else [LaneWork(lane, 0.0, self.ledger.held)]

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        lane = self.ledger.lane
        room = wants.get(lane, 0)
        self._end_leases(now)
        tasks: list[Task] = []
        for asked in self._askers.asks(now, room):
            self._leases[asked.number] = (asked, now + ttl)
            tasks.append(Task(str(asked.ask.id), lane, asked.payload()))
        dues = {other: math.inf for other in wants if other != lane}
        if len(tasks) < room:
            dues[lane] = min(self._askers.wake_at(now), now + _LOOK_EVERY)
            if not tasks:
                dues[lane] = later(now, dues[lane])
        return Lease(tasks, dues)

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        wanted = set(keys)
        for number, (asked, _) in list(self._leases.items()):
            if str(asked.ask.id) in wanted:
                del self._leases[number]
                self._leases[number] = (asked, now + ttl)

    async def settle(self, receipts: Sequence[Receipt[Sequence[LedgerEntry]]]) -> None:
        pairs = [(receipt, PendingRequest.of(receipt.task.payload)) for receipt in receipts]
        for _, asked in pairs:
            # A request that was never sent may be leased again from here on.
            self._leases.pop(asked.number, None)
        await self.ledger.record([(one, self._entries(one, asked)) for one, asked in pairs])

    async def hold(self, lane: str, until: float) -> None:
        await self.ledger.hold(until)

    async def holds(self, now: float) -> Mapping[str, float]:
        held = self.ledger.held
        return {self.ledger.lane: held} if held > now else {}

    async def counts(self) -> Counts:
        counts, leased = await self.ledger.counts(), len(self._leases)
        blocked = counts.open if self.ledger.held == math.inf else 0
        waiting = max(0, counts.open - leased)
        return replace(counts, leased=leased, waiting=waiting, blocked=blocked)

    def _end_leases(self, now: float) -> None:
        while self._leases:
            number = next(iter(self._leases))
            asked, ends = self._leases[number]
            if ends > now:
                return
            del self._leases[number]
            self._askers.returned(asked)

    def _entries(
        self, receipt: Receipt[Sequence[LedgerEntry]], asked: PendingRequest
    ) -> Sequence[LedgerEntry]:
        if receipt.news is not None:
            return receipt.news
        # An outcome of the engine: the request was never sent, or our code failed.
        if receipt.reason is Reason.PARKED:
            self._askers.returned(asked)
            return ()
        return self._askers.broke(receipt.at, asked)


if TYPE_CHECKING:
    _WORK: type[Work[Sequence[LedgerEntry]]] = IdsWork
