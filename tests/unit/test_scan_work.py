"""The rows that a process has claimed: how many of them are scanned at a time."""

from __future__ import annotations

import asyncio

from tests.support.pds.slices import SimSlice
from trawlnet.crawlers.pds.scanning.parts import ScanResult
from trawlnet.crawlers.pds.scanning.work import HeldRow, ScanWork
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock


def test_no_more_scans_are_begun_than_there_are_places() -> None:
    async def never() -> ScanResult:
        raise AssertionError("nothing is scanned here")

    async def open_slice(row: HeldRow) -> SimSlice:
        return SimSlice(never)

    async def ended(row: HeldRow, result: ScanResult, is_counted: bool) -> None:
        raise AssertionError("nothing ends here")

    async def main() -> None:
        work = ScanWork(open_slice, ended, SystemClock())
        work.places = lambda: 2
        lanes = [f"pds{number}.example" for number in range(5)]
        work.add(HeldRow(Task(lane, lane, {}), "us") for lane in lanes)
        first = await work.lease(dict.fromkeys(lanes, 1), SystemClock().now(), 60.0)
        assert len(first.tasks) == 2 and work.under_way == 2
        # Between two steps of these a worker is free, and yet no third one is begun.
        again = await work.lease(dict.fromkeys(lanes, 1), SystemClock().now(), 60.0)
        assert again.tasks == [] and work.under_way == 2

    asyncio.run(main())
