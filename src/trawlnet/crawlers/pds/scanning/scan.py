"""Scan a PDS, or one account of it, for the records that are wanted; go on where it was left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from trawlnet.crawlers.pds.scanning.asking import ScanClient
from trawlnet.crawlers.pds.scanning.ending import LOST, SliceEnd, failed
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanParts, ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.state import Scan
from trawlnet.crawlers.pds.scanning.steps import do_step, first_step, next_step
from trawlnet.crawlers.pds.scanning.writing import save, write
from trawlnet.engine.outcome import Reason
from trawlnet.tables.errors import LeaseLost
from trawlnet.tables.scanned.rows import Held, ScanKey
from trawlnet.webpage.origin import canonical_origin

_DID_SECONDS = 60.0
_STATUSES = {
    ScanVerdict.COMPLETE: "success",
    ScanVerdict.PARTIAL: "partial",
    ScanVerdict.PUT_OFF: "put_off",
    ScanVerdict.FAILED: "error",
}


async def scan_pds(parts: ScanParts, pds_url: str, *, lease: str, deadline: float) -> ScanResult:
    """One scan of a PDS, from where the last one stopped until the instant `deadline`.

    `lease` is the owner of the claim on the PDS: once it is another's, nothing more is written.
    """
    begun = parts.clock.now()
    scan = _scan(parts, pds_url, lease, deadline)
    if isinstance(scan, SliceEnd):
        return _result(None, scan, Held())
    try:
        end = await _run(scan)
        left = 0 if end.verdict is ScanVerdict.COMPLETE else await parts.tables.left(scan.key)
    except LeaseLost:
        end, left = LOST, 0
    except asyncio.CancelledError:
        # Whoever stops us should not have to ask again what was asked.
        with suppress(LeaseLost):
            await parts.tables.settle(scan.key, scan.take_done())
        raise
    result = replace(_result(scan, end, await parts.tables.held(scan.pds)), left=left)
    if parts.meter is not None:
        parts.meter.scan_ended(_STATUSES[end.verdict], parts.clock.now() - begun)
    return result


async def scan_did(
    parts: ScanParts, pds_url: str, did: str, *, lease: str, deadline: float | None = None
) -> ScanResult:
    """One account, now: between two slices of a scan of its PDS, if there is one."""
    until = parts.clock.now() + _DID_SECONDS if deadline is None else deadline
    scan = _scan(parts, pds_url, lease, until, did)
    if isinstance(scan, SliceEnd):
        return _result(None, scan, Held())
    try:
        end = await _run(scan)
    except LeaseLost:
        end = LOST
    return _result(scan, end, await parts.tables.held(scan.pds))


async def _run(scan: Scan) -> SliceEnd:
    """Step after step. Raises LeaseLost."""
    step = await first_step(scan)
    while not isinstance(step, SliceEnd):
        stepped = await do_step(scan, step)
        await write(scan, stepped.items)
        step = stepped.end or await next_step(scan)
    if not scan.is_over:
        await save(scan)
    return step


def _scan(
    parts: ScanParts, pds_url: str, lease: str, deadline: float, account: str = ""
) -> Scan | SliceEnd:
    origin = canonical_origin(pds_url, allow_private=parts.allow_private)
    if not origin.url:
        return failed(Reason.REFUSED, f"not a PDS to visit: {origin.refused}")
    client = ScanClient(parts, origin.url, deadline, deadline - parts.clock.now())
    key = ScanKey(origin.url, parts.routes.scope, lease)
    return Scan(parts, key, client, parts.routes.names, account)


def _result(scan: Scan | None, end: SliceEnd, held: Held) -> ScanResult:
    wants = scan.parts.routes.wants if scan else bool
    wanted = {name: count for name, count in held.records.items() if wants(name)}
    return ScanResult(
        verdict=end.verdict,
        reason=end.reason,
        detail=end.detail,
        again_in=end.again_in,
        tally=scan.tally if scan else ScanCounts(),
        requests=scan.client.requests if scan else 0,
        lookups=scan.lookups if scan else 0,
        repos=scan.read if scan else 0,
        held=wanted,
        indexed_held=sum(held.indexed[name] for name in wanted),
        scope=scan.key.scope.digest if scan else "",
        all_held=sum(held.records.values()),
        all_indexed=sum(held.indexed.values()),
        error=end.error,
    )
