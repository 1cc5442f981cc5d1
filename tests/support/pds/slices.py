"""Slices of scans that ask nobody: one step each, which ends as a test wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trawlnet.crawlers.pds.scanning.ending import SliceEnd
from trawlnet.crawlers.pds.scanning.items import ScanItem
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanResult
from trawlnet.engine.outcome import Again, Outcome, Receipt
from trawlnet.engine.task import Task


@dataclass
class SimSlice:
    scan: Callable[[], Awaitable[ScanResult]]
    results: list[ScanResult] = field(default_factory=list)

    async def begin(self) -> Mapping[str, str] | ScanResult:
        return {"step": "list"}

    async def do(self, task: Task) -> Outcome[SliceEnd]:
        self.results.append(await self.scan())
        return Outcome(self.results[0].reason, again=Again.NEVER)

    async def write(self, items: Sequence[ScanItem]) -> None:
        assert not items

    async def advance(self, receipt: Receipt[SliceEnd]) -> Mapping[str, str] | ScanResult:
        if (end := receipt.news) is None:
            return self.results[0]
        counts = ScanCounts()
        return ScanResult(end.verdict, end.reason, end.detail, end.again_in, counts, 1, 0, 0, {}, 0)

    async def rest(self) -> None:
        """Nothing is kept."""

    def hurry(self) -> None:
        """It ends when its test wants it to."""
