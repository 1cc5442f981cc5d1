"""How a slice of a scan ends, as a value: whatever a server did, nobody raises it."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.engine.outcome import Reason

# Seconds until a scan may go on that its own deadline or cap ended. It has taken its time or read
# its fill, so that going on at once is no busy loop.
SOON = 0.0


@dataclass(frozen=True, slots=True)
class SliceEnd:
    """The scan ends here; what it has is saved, and the next goes on."""

    verdict: ScanVerdict
    reason: Reason
    detail: str = ""
    again_in: float | None = None
    error: str = ""  # What went wrong with a part, where the whole went well.


OUT_OF_TIME = SliceEnd(ScanVerdict.PARTIAL, Reason.OK, "its time is up", SOON)
LOST = SliceEnd(ScanVerdict.PUT_OFF, Reason.PARKED, "claimed by another process meanwhile")


def failed(reason: Reason, detail: str, again_in: float | None = None) -> SliceEnd:
    return SliceEnd(ScanVerdict.FAILED, reason, detail, again_in)


def put_off(reason: Reason, detail: str, wait: float) -> SliceEnd:
    return SliceEnd(ScanVerdict.PUT_OFF, reason, detail, wait)
