"""What is counted about streams over all runs, and how one change of the live store adds to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from trawlnet.crawlers.repos.following.live_state import (
    LiveState,
    ResyncCause,
    ResyncEnd,
    Standing,
    ended_by,
)


class LiveFigures(msgspec.Struct, array_like=True):
    """Counted over all runs. Fields are stored in this order: new ones go to the end."""

    commits: int = 0
    verified: int = 0
    rejected: dict[str, int] = {}
    resyncs: int = 0
    events: int = 0
    desynchronized: int = 0  # Accounts that are so now.
    begun: dict[str, int] = {}  # Resyncs by cause,
    ended: dict[str, int] = {}  # and by how they ended.
    gaps: int = 0  # Times that messages of a server were missing.
    comparing: int = 0  # Pages of listings that are to be compared because of that.


@dataclass(slots=True)
class StandingCounts:
    """Accounts that a change brings out of step, and back."""

    begun: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    def count(self, before: LiveState, after: LiveState, cause: ResyncCause | None) -> None:
        was_behind = before.standing is Standing.DESYNCHRONIZED
        is_behind = after.standing is Standing.DESYNCHRONIZED
        if is_behind and not was_behind:
            self.begun[str(cause or ResyncCause.ARCHIVED)] += 1
        elif was_behind and not is_behind:
            self.ended[str(ended_by(before, after))] += 1

    def forget(self, before: LiveState) -> None:
        self.ended[str(ResyncEnd.FORGOTTEN)] += before.standing is Standing.DESYNCHRONIZED


def merged(counts: dict[str, int], more: Counter[str]) -> dict[str, int]:
    return dict(Counter(counts) + more)
