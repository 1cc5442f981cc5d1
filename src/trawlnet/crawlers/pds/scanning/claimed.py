"""Scanning PDSes now, outside of the schedule, but under the same claims.

A scan is claimed, made and concluded slice by slice: whoever is stopped between two of them, or
killed within one, leaves a scan that anybody can go on with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from trawlnet.crawlers.pds.build import Scan
from trawlnet.crawlers.pds.scanning.parts import ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.verdict import conclude
from trawlnet.engine.outcome import Blame
from trawlnet.engine.ports import Clock
from trawlnet.tables.registry.registry import EntryVerdict as Entered
from trawlnet.tables.registry.registry import PdsRow, PdsSource, Registered, Registry, Which

BUSY = "being scanned by another process, or by one that died just now; try again in a while"
_LONGEST_WAIT = 900.0  # Seconds; a server that sends us away for longer is for another day.
_LOOK_EVERY = 0.5  # Seconds, while another process has the PDS.
_NEXT_FOR = 5.0  # Seconds for which whoever waits is the next; said again at every look.


@dataclass(frozen=True, slots=True)
class Bench:
    """What a scan outside of the schedule takes."""

    registry: Registry
    scan: Scan
    clock: Clock
    owner: str
    lease: float
    timeout: float
    gap: float = 0.0  # Seconds between two requests to one PDS, whoever sends them.
    one_slice: bool = False  # Instead of slice after slice to the end.
    # Told after each slice but the last what the scan has come to so far.
    on_slice: Callable[[str, ScanResult], None] = lambda url, so_far: None
    # Told once, with seconds at most, when another process has the PDS.
    on_wait: Callable[[str, float], None] = lambda url, seconds: None
    scope: str = ""  # For which what is due is claimed.


async def scan_named(bench: Bench, url: str) -> ScanResult | str:
    """Due or not, known or not; or why it was not scanned."""
    registry, clock = bench.registry, bench.clock
    entered = await registry.register(url, PdsSource.USER, now=clock.now())
    if entered.verdict is Entered.REFUSED:
        return entered.reason
    row = await registry.claim_one(entered.url, clock.now(), bench.lease, bench.owner)
    if row is None:
        return await _busy(bench, entered.url)
    return await _unless_dead(bench, entered, await _scan(bench, row))


async def _unless_dead(
    bench: Bench, entered: Registered, result: ScanResult | str
) -> ScanResult | str:
    """A server that was unknown and did not answer stays unknown: a mistyped name would be asked
    for weeks."""
    is_dead = (
        isinstance(result, ScanResult)
        and result.verdict is ScanVerdict.FAILED
        and result.reason.blame is Blame.LANE
    )
    if is_dead and entered.verdict is Entered.NEW:
        await bench.registry.remove(entered.url)
    return result


async def scan_account(
    bench: Bench, url: str, scan: Callable[[str], Awaitable[ScanResult]], until: float
) -> ScanResult | str:
    """One account of a PDS, under a claim as any scan: whoever scans the PDS meanwhile ends its
    slice first, so that both together ask no faster than one. Or why it was not scanned by
    `until`."""
    registry, clock = bench.registry, bench.clock
    entered = await registry.register(url, PdsSource.USER, now=clock.now())
    if entered.verdict is Entered.REFUSED:
        return entered.reason
    row = await _claimed_by(bench, entered.url, until)
    if row is None:
        return await _busy(bench, entered.url)
    try:
        await _keep_distance(bench, row)
        result = await scan(entered.url)
    finally:
        await registry.release(entered.url, bench.owner, clock.now(), begun=True)
    return await _unless_dead(bench, entered, result)


async def _claimed_by(bench: Bench, url: str, until: float) -> PdsRow | None:
    """The row as soon as it is free, and before anybody else has it; None if it never was."""
    registry, clock, waited = bench.registry, bench.clock, False
    while True:
        now = clock.now()
        row = await registry.claim_one(url, now, bench.lease, bench.owner)
        if row is not None or now >= until:
            return row
        await registry.want(url, now, _NEXT_FOR, bench.owner)
        if not waited:
            bench.on_wait(url, min(until - now, bench.lease))
        waited = True
        await clock.sleep(_LOOK_EVERY)


async def _busy(bench: Bench, url: str) -> str:
    row = await bench.registry.get(url)
    if row is None or row.lease_until is None:
        return BUSY
    return f"{BUSY}: {max(1.0, row.lease_until - bench.clock.now()):.0f} s at most"


async def scan_due(bench: Bench) -> tuple[str, ScanResult | str] | None:
    """The most urgent one; None when nothing is due."""
    which = Which(scope=bench.scope)
    rows = await bench.registry.claim(1, bench.clock.now(), bench.lease, bench.owner, which)
    return (rows[0].pds_url, await _scan(bench, rows[0])) if rows else None


async def _scan(bench: Bench, row: PdsRow) -> ScanResult | str:
    url, so_far, claimed = row.pds_url, None, row
    while True:
        piece = await _slice(bench, claimed)
        so_far = piece if so_far is None else joined(so_far, piece)
        wait = None if bench.one_slice else before_next(piece)
        if wait is None:
            return so_far
        bench.on_slice(url, so_far)
        await bench.clock.sleep(wait)
        # Somebody's account may come first.
        again = await _claimed_by(bench, url, bench.clock.now() + bench.lease)
        if again is None:
            return await _busy(bench, url)
        claimed = again


async def _slice(bench: Bench, row: PdsRow) -> ScanResult:
    registry, clock, url = bench.registry, bench.clock, row.pds_url
    try:
        await _keep_distance(bench, row)
        result = await bench.scan(url, bench.owner, clock.now() + bench.timeout)
    except BaseException:
        await registry.release(url, bench.owner, clock.now(), begun=True)
        raise
    await conclude(registry, url, bench.owner, result, clock.now())
    return result


async def _keep_distance(bench: Bench, row: PdsRow) -> None:
    """Another process may have asked it an instant ago."""
    if row.last_try_at is not None:
        await bench.clock.sleep(max(0.0, row.last_try_at + bench.gap - bench.clock.now()))


def before_next(piece: ScanResult) -> float | None:
    """Seconds until the next slice; None if there is none, or none worth waiting for."""
    got_on = piece.repos > 0 or piece.found > 0
    goes_on = piece.verdict is ScanVerdict.PARTIAL or (
        piece.verdict is ScanVerdict.PUT_OFF and got_on
    )
    if not goes_on or piece.again_in is None or piece.again_in > _LONGEST_WAIT:
        return None
    return piece.again_in


def joined(before: ScanResult, piece: ScanResult) -> ScanResult:
    """Two slices as one scan: what was done adds up, and the later one has the last word."""
    return replace(
        piece,
        tally=before.tally + piece.tally,
        requests=before.requests + piece.requests,
        lookups=before.lookups + piece.lookups,
        repos=before.repos + piece.repos,
    )


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
