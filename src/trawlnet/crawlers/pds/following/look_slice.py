"""Looks at accounts of one PDS, one after the other under one claim: each is a scan of one account,
whose steps are tasks of the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from trawlnet.crawlers.pds.scanning.ending import SliceEnd
from trawlnet.crawlers.pds.scanning.items import ScanItem
from trawlnet.crawlers.pds.scanning.parts import ScanResult
from trawlnet.crawlers.pds.scanning.slice import ALL_LOOKED_AT, ScanSlice
from trawlnet.engine.outcome import Again, Outcome, Receipt
from trawlnet.engine.task import Task
from trawlnet.tables.registry.looks import DueLook

# Begins the next look, if there is one and time for it.
Begin = Callable[[], Awaitable[tuple[DueLook, ScanSlice] | None]]
# Told what a look came to; whether the PDS may be asked more.
End = Callable[[DueLook, ScanResult], Awaitable[bool]]


class LookSlice:
    def __init__(self, begin: Begin, end: End) -> None:
        self._begin = begin
        self._end = end
        self._now: tuple[DueLook, ScanSlice] | None = None
        self._news: SliceEnd | None = None  # How the look under way ends.

    async def begin(self) -> Mapping[str, str] | ScanResult:
        while (now := await self._begin()) is not None:
            self._now = now
            step = await now[1].begin()
            if not isinstance(step, ScanResult):
                return step
            if not await self._end(now[0], step):
                return step
        self._now = None
        return ALL_LOOKED_AT

    async def do(self, task: Task) -> Outcome[SliceEnd]:
        """The end of one look is a step of this slice: others may follow it."""
        outcome = await self._scan.do(task)
        if outcome.news is None:
            return outcome
        self._news = outcome.news
        return replace(outcome, again=Again.AT_ONCE, news=None)

    async def write(self, items: Sequence[ScanItem]) -> None:
        await self._scan.write(items)

    async def advance(self, receipt: Receipt[SliceEnd]) -> Mapping[str, str] | ScanResult:
        look, scan = self._look, self._scan
        if self._news is not None:
            receipt, self._news = replace(receipt, news=self._news), None
        step = await scan.advance(receipt)
        if not isinstance(step, ScanResult):
            return step
        return await self.begin() if await self._end(look, step) else step

    async def rest(self) -> None:
        """What waits for a look waits on."""
        if self._now is not None:
            await self._scan.rest()

    def hurry(self) -> None:
        """It is short as it is."""

    @property
    def _look(self) -> DueLook:
        assert self._now is not None
        return self._now[0]

    @property
    def _scan(self) -> ScanSlice:
        assert self._now is not None
        return self._now[1]
