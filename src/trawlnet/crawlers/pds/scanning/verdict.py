"""What the end of a scan means for its row of the registry."""

from __future__ import annotations

import logging

from trawlnet.crawlers.pds.scanning.parts import ScanResult, ScanVerdict
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import ScanEnded

log = logging.getLogger(__name__)

_SOON = 900.0  # Seconds until a scan goes on that did not say when.


async def conclude(
    registry: Registry, url: str, owner: str, result: ScanResult, now: float
) -> bool:
    """Write it down, if the lease is still ours; False if it was lost."""
    again_in = _SOON if result.again_in is None else result.again_in
    match result.verdict:
        case ScanVerdict.COMPLETE:
            ended = ScanEnded(
                found=result.all_held,
                indexed=result.all_indexed,
                scope=result.scope,
                has_wanted=result.held_total > 0,
                error=result.error,
            )
            kept = await registry.completed(url, owner, ended, now=now)
        case ScanVerdict.PARTIAL:
            kept = await registry.partial(
                url, owner, now=now, again_in=again_in, error=result.error
            )
        case ScanVerdict.PUT_OFF:
            kept = await registry.put_off(url, owner, result.reason, now=now, again_in=again_in)
        case ScanVerdict.FAILED:
            kept = await registry.failed(
                url, owner, result.detail, result.reason, now, again_in=result.again_in
            )
    if not kept:
        log.warning("scan outlived its lease", extra={"pds": url})
    return kept
