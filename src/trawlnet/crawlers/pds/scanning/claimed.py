"""One account, now: outside of the schedule, but under the same claims."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trawlnet.crawlers.pds.scanning.parts import ScanResult, ScanVerdict
from trawlnet.engine.outcome import Blame
from trawlnet.engine.ports import Clock
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import EntryVerdict as Entered
from trawlnet.tables.registry.rules import PdsRow, PdsSource, Registered

BUSY = "being scanned by another process, or by one that died just now; try again later"
LOOK_EVERY = 0.5  # Seconds, while another process has the PDS.
NEXT_FOR = 5.0  # Seconds for which whoever waits is the next; said again at every look.


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """What a claim outside of the schedule takes."""

    registry: Registry
    clock: Clock
    owner: str
    lease: float
    gap: float = 0.0  # Seconds between two requests to one PDS, whoever sends them.
    # Told once, with seconds at most, when another process has the PDS.
    on_wait: Callable[[str, float], None] = lambda url, seconds: None


async def unless_dead(context: ClaimContext, entered: Registered, result: ScanResult) -> ScanResult:
    """A server that was unknown and did not answer stays unknown: a mistyped name would be asked
    for weeks."""
    is_dead = result.verdict is ScanVerdict.FAILED and result.reason.blame is Blame.LANE
    if is_dead and entered.verdict is Entered.NEW:
        await context.registry.remove(entered.url)
    return result


async def scan_account(
    context: ClaimContext, url: str, scan: Callable[[str], Awaitable[ScanResult]], until: float
) -> ScanResult | str:
    """One account of a PDS, under a claim as any scan: whoever scans the PDS meanwhile ends its
    slice first, so that both together ask no faster than one. Or why it was not scanned by
    `until`."""
    registry, clock = context.registry, context.clock
    entered = await registry.register(url, PdsSource.USER, now=clock.now())
    if entered.verdict is Entered.REFUSED:
        return entered.reason
    row = await _claimed_by(context, entered.url, until)
    if row is None:
        return await busy(context, entered.url)
    try:
        await _keep_distance(context, row)
        result = await scan(entered.url)
    finally:
        await registry.release(entered.url, context.owner, clock.now(), begun=True)
    return await unless_dead(context, entered, result)


async def _claimed_by(context: ClaimContext, url: str, until: float) -> PdsRow | None:
    """The row as soon as it is free, and before anybody else has it; None if it never was."""
    registry, clock, waited = context.registry, context.clock, False
    while True:
        now = clock.now()
        row = await registry.claim_one(url, now, context.lease, context.owner)
        if row is not None or now >= until:
            return row
        await registry.want(url, now, NEXT_FOR, context.owner)
        if not waited:
            context.on_wait(url, min(until - now, context.lease))
        waited = True
        await clock.sleep(LOOK_EVERY)


async def busy(context: ClaimContext, url: str) -> str:
    row = await context.registry.get(url)
    if row is None or row.lease_until is None:
        return BUSY
    return f"{BUSY}: {max(1.0, row.lease_until - context.clock.now()):.0f} s at most"


async def _keep_distance(context: ClaimContext, row: PdsRow) -> None:
    """Another process may have asked it an instant ago."""
    if row.last_try_at is not None:
        await context.clock.sleep(max(0.0, row.last_try_at + context.gap - context.clock.now()))
