"""How a lane is doing, in one word, and its name made safe to show."""

from __future__ import annotations

import math
import unicodedata
from enum import StrEnum

from trawlnet.engine.gate import LaneState

LANE_NAME_MAX = 60  # Characters of a lane's name that people get to see.


class LaneCondition(StrEnum):
    HEALTHY = "healthy"
    SLOWED = "slowed"  # Failed lately; asked less often until it answers.
    PARKED = "parked"  # Told us to wait, or is being waited for.
    BLOCKED = "blocked"  # Failed too often; left alone for this run.


def condition(state: LaneState, now: float) -> LaneCondition:
    return condition_of(state.parked, state.failures, now)


def condition_of(parked: float, failures: int, now: float) -> LaneCondition:
    if parked == math.inf:
        return LaneCondition.BLOCKED
    if parked > now:
        return LaneCondition.PARKED
    if failures:
        return LaneCondition.SLOWED
    return LaneCondition.HEALTHY


def shown(remote: str, most: int = LANE_NAME_MAX) -> str:
    """Text that a stranger chose, as one short piece that moves no cursor and starts no markup."""
    # Cut before cleaning: the work is bounded by what can be shown.
    cut = remote[: most + 1]
    if cut.isascii() and cut.isprintable() and len(cut) <= most:
        return cut  # Nearly all names, at a twentieth of the cost.
    clean = "".join(char if char == " " or _visible(char) else "?" for char in cut)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def _visible(char: str) -> bool:
    """Neither control, format or surrogate, nor a mark that stacks on others, nor odd space."""
    return unicodedata.category(char)[0] not in "CMZ"
