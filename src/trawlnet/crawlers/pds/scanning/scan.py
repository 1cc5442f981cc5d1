"""One slice by itself, as a crawl of one PDS: for whoever has claimed it and waits for the end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from trawlnet.crawlers.pds.config import step_retries
from trawlnet.crawlers.pds.scanning.parts import ScanParts, ScanResult
from trawlnet.crawlers.pds.scanning.slice import ScanSlice
from trawlnet.crawlers.pds.scanning.work import HeldRow, ScanHandler, ScanSink, ScanWork, Slice
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Limits, Parts, crawl
from trawlnet.engine.task import Task
from trawlnet.tables.errors import LeaseLost

_DID_SECONDS = 60.0


async def scan_pds(parts: ScanParts, pds_url: str, *, lease: str, deadline: float) -> ScanResult:
    """One scan of a PDS, from where the last one stopped until the instant `deadline`."""
    return await _alone(parts, pds_url, ScanSlice(parts, pds_url, lease, deadline))


async def scan_did(
    parts: ScanParts, pds_url: str, did: str, *, lease: str, deadline: float | None = None
) -> ScanResult:
    """One account, now: between two slices of a scan of its PDS, if there is one."""
    until = parts.clock.now() + _DID_SECONDS if deadline is None else deadline
    return await _alone(parts, pds_url, ScanSlice(parts, pds_url, lease, until, did))


async def _alone(parts: ScanParts, pds_url: str, one: ScanSlice) -> ScanResult:
    if (away := one.sent_away()) is not None:
        return away
    claim = _ClaimByCaller(one)
    work = ScanWork(claim, parts.clock)
    work.add([HeldRow(Task(pds_url, one.lane), "")])
    whole = Parts(None, work, ScanHandler(work), ScanSink(work), parts.gate, parts.clock)
    try:
        await crawl(whole, Limits(retry=step_retries(parts.limits.tries)), Control(1))
    except BaseException:
        # Whoever stops us should not have to ask again what was asked.
        with suppress(LeaseLost):
            await one.rest()
        raise
    return claim.results[0]


@dataclass(slots=True)
class _ClaimByCaller:
    """The claim on the one row is held, renewed and ended by whoever waits for the slice."""

    slice: Slice
    results: list[ScanResult] = field(default_factory=list)

    def places(self) -> float:
        return 1

    def on_place(self, lane: str) -> None:
        """There is no other lane."""

    async def open_row(self, row: HeldRow) -> Slice:
        return self.slice

    async def renew_row(self, row: HeldRow, ttl: float) -> None:
        """The claim lasts until the deadline of the slice."""

    async def end_row(self, row: HeldRow, result: ScanResult, is_counted: bool) -> None:
        self.results.append(result)
