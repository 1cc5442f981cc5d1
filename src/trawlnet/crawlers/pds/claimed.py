"""Scanning PDSes now, outside of the schedule, but under the same claims."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trawlnet.crawlers.pds.build import Scan
from trawlnet.crawlers.pds.scan_parts import ScanResult
from trawlnet.crawlers.pds.verdict import conclude
from trawlnet.engine.ports import Clock
from trawlnet.tables.registry import PdsRow, Registry, Source, Verdict

BUSY = "being scanned by another process"


@dataclass(frozen=True, slots=True)
class Bench:
    """What a scan outside of the schedule takes."""

    registry: Registry
    scan: Scan
    clock: Clock
    owner: str
    lease: float
    timeout: float


async def scan_named(bench: Bench, url: str) -> ScanResult | str:
    """Due or not, known or not; or why it was not scanned."""
    registry, clock = bench.registry, bench.clock
    entered = await registry.register(url, Source.USER, now=clock.now())
    if entered.verdict is Verdict.REFUSED:
        return entered.reason
    row = await registry.claim_one(entered.url, clock.now(), bench.lease, bench.owner)
    return BUSY if row is None else await _scan(bench, row)


async def scan_due(bench: Bench) -> tuple[str, ScanResult] | None:
    """The most urgent one; None when nothing is due."""
    rows = await bench.registry.claim(1, bench.clock.now(), bench.lease, bench.owner)
    return (rows[0].pds_url, await _scan(bench, rows[0])) if rows else None


async def _scan(bench: Bench, row: PdsRow) -> ScanResult:
    registry, clock, url = bench.registry, bench.clock, row.pds_url
    try:
        result = await bench.scan(url, clock.now() + bench.timeout)
    except BaseException:
        await registry.release(url, bench.owner, clock.now())
        raise
    await conclude(registry, url, bench.owner, result, clock.now())
    return result


async def scan_each(
    bench: Bench,
    urls: Sequence[str],
    concurrency: int,
    tell: Callable[[str, ScanResult | str], None],
) -> None:
    """So many at a time; each is told when it ends."""
    rest = iter(dict.fromkeys(urls))

    async def work() -> None:
        for url in rest:
            tell(url, await scan_named(bench, url))

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())


async def scan_batch(
    bench: Bench, most: int, concurrency: int, tell: Callable[[str, ScanResult | str], None]
) -> None:
    """At most so many of those that are due."""
    tickets = iter(range(most))

    async def work() -> None:
        for _ in tickets:
            if (done := await scan_due(bench)) is None:
                return
            tell(*done)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
