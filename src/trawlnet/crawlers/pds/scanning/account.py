"""One account, now: where it lives, whether it changed, and then its repo as any other."""

from __future__ import annotations

from dataclasses import replace

from trawlnet.crawlers.atproto.answers import speaks_for_account
from trawlnet.crawlers.pds.scanning.ending import Halt, SliceEnd, failed
from trawlnet.crawlers.pds.scanning.pages import latest_commit_url, read_rev
from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.crawlers.pds.scanning.residence import Residence, residence_of
from trawlnet.crawlers.pds.scanning.state import OpenReading, Scan, StepResult, halted
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.malformed import Malformed
from trawlnet.tables.scanned.rows import RepoReading

_SMALL = 64 << 10  # Bytes.
ELSEWHERE = "the account does not live there"


async def begin_account(scan: Scan) -> StepResult:
    residence = await residence_of(scan, scan.account, afresh=scan.afresh)
    if isinstance(residence, SliceEnd):
        return StepResult(end=residence)
    if isinstance(residence, Outcome):
        return StepResult(end=failed(residence.reason, residence.detail))
    last = await scan.parts.tables.last_reading(scan.key, scan.account)
    # Higher than any before, so that a reading that was begun makes room.
    reading = RepoReading(scan.account, "", last.number + 1, is_held=last.is_held)
    if residence is not Residence.HERE:
        end = failed(Reason.REFUSED, ELSEWHERE)
        return StepResult(scan.nothing_there(reading), end)
    rev = await _latest_rev(scan)
    if isinstance(rev, Halt):
        return halted(rev)
    if isinstance(rev, Outcome):
        items = scan.nothing_there(reading) if speaks_for_account(rev) else ()
        return StepResult(items, failed(rev.reason, rev.detail), rev)
    if rev and last.rev == rev:
        detail = "nothing changed since the last scan"
        return StepResult(end=SliceEnd(ScanVerdict.COMPLETE, Reason.NOT_MODIFIED, detail))
    scan.open = OpenReading(replace(reading, rev=rev))
    return StepResult()


def account_ended(scan: Scan) -> SliceEnd:
    if scan.done and scan.done[-1].trouble:
        return failed(Reason(scan.done[-1].trouble), "the account could not be read")
    return SliceEnd(ScanVerdict.COMPLETE, Reason.OK)


async def _latest_rev(scan: Scan) -> str | Outcome | Halt:
    """Empty where the server does not tell."""
    body = await scan.client.ask(latest_commit_url(scan.pds, scan.account), _SMALL)
    if isinstance(body, Halt):
        return body
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
