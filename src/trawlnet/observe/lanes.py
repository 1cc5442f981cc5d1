"""The condition of a lane in one word, and its name made safe to show."""

from __future__ import annotations

import math
import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Most who show a name from elsewhere run no event loop.
    from trawlnet.engine.gate import LaneState

LANE_NAME_MAX = 60  # Characters of a lane's name that are shown.


class LaneCondition(StrEnum):
    HEALTHY = "healthy"
    SLOWED = "slowed"  # Failed recently; gets fewer requests until it answers.
    PARKED = "parked"  # Asked us to wait, or waits for a probe.
    BLOCKED = "blocked"  # Failed too often; gets no request in this run.


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
    """Text from a server, shortened, without control characters or markup."""
    # Cut before cleaning, so that the work is bounded.
    cut = remote[: most + 1]
    if cut.isascii() and cut.isprintable() and len(cut) <= most:
        return cut  # Nearly all names, at a twentieth of the cost.
    clean = "".join(char if char == " " or _visible(char) else "?" for char in cut)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def _visible(char: str) -> bool:
    """No control, format or surrogate character, no combining mark, no unusual space."""
    return unicodedata.category(char)[0] not in "CMZ"
