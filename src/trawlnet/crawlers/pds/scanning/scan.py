"""Scan a PDS, or one account of it, for the records that are wanted; go on where it was left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from trawlnet.crawlers.atproto.answers import speaks_for_account
from trawlnet.crawlers.pds.scanning.asking import ScanClient, Stopped
from trawlnet.crawlers.pds.scanning.pages import latest_commit_url, read_rev
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanParts, ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.reading import read_repo
from trawlnet.crawlers.pds.scanning.residence import Residence, residence_of
from trawlnet.crawlers.pds.scanning.state import Scan
from trawlnet.crawlers.pds.scanning.walk import walk
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.tables.errors import LeaseLost
from trawlnet.tables.scanned.rows import Held, RepoReading, ScanKey
from trawlnet.webpage.origin import canonical_origin

_SMALL = 64 << 10  # Bytes.
_DID_SECONDS = 60.0
_TOMORROW = 86_400.0

_LOST = Stopped(ScanVerdict.PUT_OFF, Reason.PARKED, "claimed by another process meanwhile")
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
    if isinstance(scan, Stopped):
        return _result(None, scan, Held())
    try:
        ending = await _walk(scan)
        left = 0 if ending.verdict is ScanVerdict.COMPLETE else await parts.tables.left(scan.key)
    except LeaseLost:
        ending, left = _LOST, 0
    except asyncio.CancelledError:
        # Whoever stops us should not have to ask again what was asked.
        with suppress(LeaseLost):
            await parts.tables.settle(scan.key, scan.take_done())
        raise
    result = replace(_result(scan, ending, await parts.tables.held(scan.pds)), left=left)
    if parts.meter is not None:
        parts.meter.scan_ended(_STATUSES[ending.verdict], parts.clock.now() - begun)
    return result


async def _walk(scan: Scan) -> Stopped:
    try:
        await walk(scan)
        return await _conclusion(scan)
    except Stopped as stopped:
        await scan.save()
        return stopped


async def scan_did(
    parts: ScanParts, pds_url: str, did: str, *, lease: str, deadline: float | None = None
) -> ScanResult:
    """One account, now: between two slices of a scan of its PDS, if there is one."""
    end = parts.clock.now() + _DID_SECONDS if deadline is None else deadline
    scan = _scan(parts, pds_url, lease, end)
    if isinstance(scan, Stopped):
        return _result(None, scan, Held())
    try:
        try:
            ending = await _scan_account(scan, did)
        except Stopped as stopped:
            ending = stopped
        await scan.flush()
        await parts.tables.settle(scan.key, scan.done)
    except LeaseLost:
        ending = _LOST
    if ending.verdict is ScanVerdict.COMPLETE and scan.done and scan.done[-1].trouble:
        trouble = Reason(scan.done[-1].trouble)
        ending = Stopped(ScanVerdict.FAILED, trouble, "the account could not be read")
    return _result(scan, ending, await parts.tables.held(scan.pds))


def _scan(parts: ScanParts, pds_url: str, lease: str, deadline: float) -> Scan | Stopped:
    origin = canonical_origin(pds_url, allow_private=parts.allow_private)
    if not origin.url:
        return Stopped(ScanVerdict.FAILED, Reason.REFUSED, f"not a PDS to visit: {origin.refused}")
    asker = ScanClient(parts, origin.url, deadline, deadline - parts.clock.now())
    key = ScanKey(origin.url, parts.routes.scope, lease)
    return Scan(parts, key, asker, parts.routes.names)


async def _conclusion(scan: Scan) -> Stopped:
    """What a walk to the end means. That there is nothing may be said only if nothing failed."""
    held = await scan.parts.tables.held(scan.pds)
    has_wanted = any(map(scan.parts.routes.wants, held.records))
    troubles = dict(await scan.parts.tables.troubles(scan.key, scan.progress.walk))
    sound = troubles.pop("", 0)
    if not troubles:
        if scan.strangers and not has_wanted:
            if scan.lacks_describe:
                return Stopped(
                    ScanVerdict.FAILED, Reason.REFUSED, "it lists accounts of others only"
                )
            detail = f"{scan.strangers} accounts with records live elsewhere"
            return Stopped(ScanVerdict.COMPLETE, Reason.REFUSED, detail, error=detail)
        return Stopped(ScanVerdict.COMPLETE, Reason.OK, "")
    worst = Reason(max(troubles, key=lambda trouble: troubles[trouble]))
    count = sum(troubles.values())
    detail = f"{count} of {count + sound} repos could not be read: {worst}"
    if has_wanted:
        return Stopped(ScanVerdict.COMPLETE, Reason.OK, detail, error=detail)
    if count <= sound:
        return Stopped(ScanVerdict.PARTIAL, Reason.OK, detail, _TOMORROW, error=detail)
    return Stopped(ScanVerdict.FAILED, worst, detail)


async def _scan_account(scan: Scan, did: str) -> Stopped:
    residence = await residence_of(scan, did, afresh=True)
    if isinstance(residence, Outcome):
        return Stopped(ScanVerdict.FAILED, residence.reason, residence.detail)
    tables = scan.parts.tables
    last = await tables.last_reading(scan.key, did)
    # Higher than any before, so that a reading that was begun makes room.
    reading = RepoReading(did, "", last.number + 1, is_held=last.is_held)
    if residence is Residence.ELSEWHERE:
        await scan.nothing_there(reading)
        return Stopped(ScanVerdict.FAILED, Reason.REFUSED, "the account does not live there")
    rev = await _latest_rev(scan, did)
    if isinstance(rev, Outcome):
        if speaks_for_account(rev):
            await scan.nothing_there(reading)
        return Stopped(ScanVerdict.FAILED, rev.reason, rev.detail)
    if rev and last.rev == rev:
        return Stopped(
            ScanVerdict.COMPLETE, Reason.NOT_MODIFIED, "nothing changed since the last scan"
        )
    await read_repo(scan, replace(reading, rev=rev))
    return Stopped(ScanVerdict.COMPLETE, Reason.OK, "")


async def _latest_rev(scan: Scan, did: str) -> str | Outcome:
    """Empty where the server does not tell."""
    body = await scan.asker.ask(latest_commit_url(scan.pds, did), _SMALL)
    if isinstance(body, Outcome):
        is_final = speaks_for_account(body) or body.reason not in (
            Reason.HTTP_ERROR,
            Reason.NOT_FOUND,
        )
        return body if is_final else ""
    try:
        return read_rev(body)
    except Malformed:
        return ""


def _result(scan: Scan | None, ending: Stopped, held: Held) -> ScanResult:
    wants = scan.parts.routes.wants if scan else bool
    wanted = {name: count for name, count in held.records.items() if wants(name)}
    return ScanResult(
        verdict=ending.verdict,
        reason=ending.reason,
        detail=ending.detail,
        again_in=ending.again_in,
        tally=scan.tally if scan else ScanCounts(),
        requests=scan.asker.requests if scan else 0,
        lookups=scan.lookups if scan else 0,
        repos=scan.read if scan else 0,
        held=wanted,
        indexed_held=sum(held.indexed[name] for name in wanted),
        scope=scan.key.scope.digest if scan else "",
        all_held=sum(held.records.values()),
        all_indexed=sum(held.indexed.values()),
        error=ending.error,
    )
