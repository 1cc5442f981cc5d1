"""Whether an account lives where its records are shown: only its own DID document can say."""

from __future__ import annotations

import asyncio
from enum import StrEnum

from trawlnet.crawlers.atproto.identity import Identity
from trawlnet.crawlers.pds.scanning.ending import OUT_OF_TIME, SliceEnd, put_off
from trawlnet.crawlers.pds.scanning.state import Scan
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Outcome, Reason

_DIRECTORY_PAUSE = 600.0  # Seconds until a scan goes on that could not look people up.
# Said about the DID itself, and not about how we got on with whoever knows it.
ANSWERS = frozenset((Reason.NOT_FOUND, Reason.REFUSED, Reason.PARSE_ERROR))


class Residence(StrEnum):
    HERE = "here"
    ELSEWHERE = "elsewhere"
    NOWHERE = "nowhere"  # There is no such account, or none with a document that can be read.


async def residence_of(
    scan: Scan, did: str, *, afresh: bool = False
) -> Residence | Outcome | SliceEnd:
    """An Outcome where one account's document cannot be had; the end of the slice where nobody's
    can."""
    identities = scan.parts.identities
    was_remembered = identities.remembers(did) and not afresh
    answer = await _look_up(scan, did, afresh=afresh)
    if was_remembered and not _is_here(scan, answer):
        # It may have moved here since.
        answer = await _look_up(scan, did, afresh=True)
    if isinstance(answer, SliceEnd):
        return answer
    if _is_here(scan, answer):
        return Residence.HERE
    if isinstance(answer, Identity):
        return Residence.ELSEWHERE
    if answer.reason in ANSWERS:
        return Residence.NOWHERE
    if did.startswith("did:plc:"):
        wait = max(answer.wait or 0.0, _DIRECTORY_PAUSE)
        return put_off(Reason.PARKED, f"the directory: {answer.detail}", wait)
    return answer


def _is_here(scan: Scan, answer: Identity | Outcome | SliceEnd) -> bool:
    return isinstance(answer, Identity) and answer.pds == scan.pds


async def _look_up(scan: Scan, did: str, *, afresh: bool) -> Identity | Outcome | SliceEnd:
    left = scan.client.deadline - scan.now
    if left <= 0.0:
        return OUT_OF_TIME
    patience = scan.client.patience
    scan.lookups += 1
    try:
        async with asyncio.timeout(min(left, patience)):
            return await scan.parts.identities.ask(did, afresh=afresh)
    except TimeoutError:
        if left < patience:
            return OUT_OF_TIME
        return Outcome(Reason.TIMEOUT, detail="its DID document could not be fetched in time")
    except LaneParked as parked:
        wait = max(parked.until - scan.now, 1.0)
        return Outcome(
            Reason.PARKED, wait=wait, detail="it asked for a pause earlier, which is not over"
        )
