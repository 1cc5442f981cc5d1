"""Which fields of a report describe its run; they changed over the years.

A run is fresh if it began at the first encounter. Reports had a phase number for this, later
nothing, and then a flag that was only partly reliable for the first three months.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from trawlnet.malformed import Malformed

BEYOND_LIGHT = datetime(2020, 11, 10, 17, tzinfo=UTC)
WITCH_QUEEN = datetime(2022, 2, 22, 17, tzinfo=UTC)
HAUNTED = datetime(2022, 5, 24, 17, tzinfo=UTC)

SCOURGE = frozenset((548750096, 2812525063))
LEVIATHAN = frozenset(
    (
        *range(2693136600, 2693136606),
        *(89727599, 287649202, 1699948563, 1875726950, 3916343513, 4039317196),
        *(417231112, 508802457, 757116822, 771164842, 1685065161, 1800508819),
        *(2449714930, 3446541099, 3857338478, 3879860661, 3912437239, 4206123728),
    )
)
# Phases at which a fresh run of these begins; of all other activities it is the first.
_FIRST_PHASES = {hash_: frozenset((0, 1)) for hash_ in SCOURGE} | {
    hash_: frozenset((0, 2)) for hash_ in LEVIATHAN
}
_FIRST = frozenset((0,))


class Era(StrEnum):
    PHASES = "phases"  # The report names the phase at which the run began.
    SILENT = "silent"  # It names neither.
    DOUBTFUL = "doubtful"  # It has the flag, which is wrong for some runs that were resumed.
    FLAGGED = "flagged"


def era_of(started: datetime) -> Era:
    if started >= HAUNTED:
        return Era.FLAGGED
    if started >= WITCH_QUEEN:
        return Era.DOUBTFUL
    return Era.SILENT if started >= BEYOND_LIGHT else Era.PHASES


def require_beginning(started: datetime, phase: int | None, flag: bool | None) -> None:
    """A report is not whole without the field that its time used."""
    if started >= WITCH_QUEEN:
        if flag is None:
            raise Malformed("activityWasStartedFromBeginning is missing")
    elif phase is None:
        raise Malformed("startingPhaseIndex is missing")


def is_fresh(
    started: datetime, activity: int, phase: int | None, flag: bool | None, deathless: bool
) -> bool | None:
    """True, False, or None where the report cannot tell."""
    match era_of(started):
        case Era.FLAGGED:
            return flag
        case Era.DOUBTFUL:
            return flag if flag or deathless else None
        case Era.SILENT:
            return None
        case Era.PHASES:
            return phase in _FIRST_PHASES.get(activity, _FIRST)


def is_flawless(completed: bool, deathless: bool, fresh: bool | None) -> bool | None:
    """Only a whole run counts, so it is as unknowable as its beginning."""
    return fresh if completed and deathless else False
