"""The rows that a process has claimed: how many of them are scanned at a time."""

from __future__ import annotations

import asyncio

from tests.support.pds.slices import SimSlice
from trawlnet.crawlers.pds.scanning.parts import ScanResult
from trawlnet.crawlers.pds.scanning.work import HeldRow, ScanWork
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock


def test_no_more_scans_are_begun_than_there_are_places() -> None:
    renewed: list[str] = []

    async def never() -> ScanResult:
        raise AssertionError("nothing is scanned here")

    class TwoPlaces:
        def places(self) -> float:
            return 2

        def on_place(self, lane: str) -> None:
            raise AssertionError("nothing ends here")

        async def open_row(self, row: HeldRow) -> SimSlice:
            return SimSlice(never)

        async def renew_row(self, row: HeldRow, ttl: float) -> None:
            renewed.append(row.task.key)

        async def end_row(self, row: HeldRow, result: ScanResult, is_counted: bool) -> None:
            raise AssertionError("nothing ends here")

    async def main() -> None:
        work = ScanWork(TwoPlaces(), SystemClock())
        lanes = [f"pds{number}.example" for number in range(5)]
        work.add(HeldRow(Task(lane, lane, {}), "us") for lane in lanes)
        first = await work.lease(dict.fromkeys(lanes, 1), SystemClock().now(), 60.0)
        assert len(first.tasks) == 2 and work.under_way == 2
        # Between two steps of these a worker is free, and yet no third one is begun.
        again = await work.lease(dict.fromkeys(lanes, 1), SystemClock().now(), 60.0)
        assert again.tasks == [] and work.under_way == 2
        # The claims of those that wait last as long as the others.
        await work.renew([task.key for task in first.tasks], SystemClock().now(), 60.0)
        assert renewed == lanes

    asyncio.run(main())
