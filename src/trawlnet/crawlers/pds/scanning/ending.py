"""How a slice of a scan ends, as a value: whatever a server did, nobody raises it."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.crawlers.pds.scanning.parts import ScanVerdict
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.tables.errors import LeaseLost, TablesBusy, TablesFull, TablesUnreachable

# Seconds until a scan may go on that its own deadline or cap ended. It has taken its time or read
# its fill, so that going on at once is no busy loop.
SOON = 0.0
# Seconds: a pause that is short is waited out, for no longer than two turns at the usual pace;
# anything longer is for others to use.
SHORT_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class SliceEnd:
    """The scan ends here; what it has is saved, and the next goes on."""

    verdict: ScanVerdict
    reason: Reason
    detail: str = ""
    again_in: float | None = None
    error: str = ""  # What went wrong with a part, where the whole went well.


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The step is tried again: what went wrong may pass."""

    outcome: Outcome


Halt = SliceEnd | TryAgain

TablesAway = (TablesUnreachable, TablesBusy, TablesFull)
_SOON = 900.0  # Seconds until a scan goes on that the trouble of others cut short,
_REGISTRY_IS_BACK = 30.0  # or that our own registry did: it answers again when this is written.

OUT_OF_TIME = SliceEnd(ScanVerdict.PARTIAL, Reason.OK, "its time limit is reached", SOON)
MADE_ROOM = SliceEnd(
    ScanVerdict.PARTIAL, Reason.OK, "its accounts named by a firehose are scanned first", SOON
)
LOST = SliceEnd(ScanVerdict.PUT_OFF, Reason.PARKED, "another process has claimed it meanwhile")


def failed(reason: Reason, detail: str, again_in: float | None = None) -> SliceEnd:
    return SliceEnd(ScanVerdict.FAILED, reason, detail, again_in)


def put_off(reason: Reason, detail: str, wait: float) -> SliceEnd:
    return SliceEnd(ScanVerdict.PUT_OFF, reason, detail, wait)


def excused(reason: Reason, detail: str) -> SliceEnd:
    """Through no fault of the PDS."""
    return put_off(reason, detail, _SOON)


def cut_short(error: Exception) -> SliceEnd:
    """By what happened to the registry: the claim is another's, or it is away, or full."""
    match error:
        case LeaseLost():
            return LOST
        case TablesFull():
            return excused(Reason.NO_SPACE, error.message)
    return put_off(Reason.PARKED, str(error), _REGISTRY_IS_BACK)
