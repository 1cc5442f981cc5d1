"""Scans that a user asks for take their turn with those of others, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.pds.slices import SimSlice
from trawlnet.crawlers.pds.scanning.claimed import ClaimContext, scan_account
from trawlnet.crawlers.pds.scanning.named import NamedScans, scan_each
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanResult, ScanVerdict
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.engine.rules import Manners
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, open_registry
from trawlnet.tables.registry.rules import PdsStatus

URL = "https://pds.pds-world.net"
SLICE, GAP, LEASE = 60.0, 6.0, 120.0


def result(verdict: ScanVerdict) -> ScanResult:
    again_in = 0.0 if verdict is ScanVerdict.PARTIAL else None
    return ScanResult(verdict, Reason.OK, "", again_in, ScanCounts(), 1, 0, 1, {}, 0)


@dataclass
class Office:
    registry: Registry
    clock: SimClock = field(default_factory=SimClock)
    spans: list[tuple[str, float, float]] = field(default_factory=list)  # Who asked, from, until.
    slices: int = 3

    def bench(self, owner: str, waits: list[float] | None = None) -> ClaimContext:
        told = waits if waits is not None else []
        return ClaimContext(
            self.registry,
            self.clock,
            owner,
            LEASE,
            GAP,
            on_wait=lambda url, seconds: told.append(seconds),
        )

    async def scan_whole(self) -> ScanResult | str:
        async def scan() -> ScanResult:
            await self.asks("whole", SLICE)
            self.slices -= 1
            return result(ScanVerdict.PARTIAL if self.slices else ScanVerdict.COMPLETE)

        told: list[ScanResult | str] = []
        gate = Gate(self.clock, Manners(rate=1 / GAP, concurrency=1, steered=True))
        scans = NamedScans(self.bench("whole"), gate, lambda url, owner: SimSlice(scan))
        await scan_each(scans, [URL], lambda url, done: told.append(done))
        (done,) = told
        return done

    async def asks(self, owner: str, seconds: float) -> None:
        begun = self.clock.now()
        await self.clock.sleep(seconds)
        self.spans.append((owner, begun, self.clock.now()))


def in_office(tmp_path: Path, body: Callable[[Office], Awaitable[None]]) -> None:
    async def run() -> None:
        registry = await open_registry(tmp_path / "registry.db", Terms())
        try:
            await body(Office(registry))
        finally:
            await registry.close()

    run_sim(run())


def test_an_account_is_scanned_between_two_slices_at_one_pace(tmp_path: Path) -> None:
    async def body(office: Office) -> None:
        async def account(url: str) -> ScanResult:
            await office.asks("account", 20.0)
            return result(ScanVerdict.COMPLETE)

        waits: list[float] = []
        async with asyncio.TaskGroup() as group:
            whole = group.create_task(office.scan_whole())
            await asyncio.sleep(10.0)
            bench = office.bench("account", waits)
            one = group.create_task(scan_account(bench, URL, account, 10.0 + LEASE))
        for task in (whole, one):
            done = task.result()
            assert isinstance(done, ScanResult) and done.complete
        # After the slice that was under way, and not after the whole scan.
        assert [who for who, _, _ in office.spans] == ["whole", "account", "whole", "whole"]
        assert len(waits) == 1
        ends = [until for _, _, until in office.spans]
        begins = [begun for _, begun, _ in office.spans]
        assert all(after - before >= GAP for before, after in zip(ends, begins[1:], strict=False))
        row = await office.registry.get(URL)
        assert row is not None and row.status is PdsStatus.NO_CHIVE_RECORDS and not row.lease_owner

    in_office(tmp_path, body)


def test_whoever_cannot_wait_is_told_so(tmp_path: Path) -> None:
    async def body(office: Office) -> None:
        async def account(url: str) -> ScanResult:
            raise AssertionError("nobody else may ask now")

        async with asyncio.TaskGroup() as group:
            group.create_task(office.scan_whole())
            await asyncio.sleep(1.0)
            refused = await scan_account(office.bench("account"), URL, account, 20.0)
            assert isinstance(refused, str) and "another process" in refused

    in_office(tmp_path, body)


def test_an_account_whose_scan_fails_gives_the_claim_back(tmp_path: Path) -> None:
    async def body(office: Office) -> None:
        async def account(url: str) -> ScanResult:
            raise TimeoutError

        with pytest.raises(TimeoutError):
            await scan_account(office.bench("account"), URL, account, 20.0)
        assert await office.registry.claim_one(URL, office.clock.now(), LEASE, "next")

    in_office(tmp_path, body)
