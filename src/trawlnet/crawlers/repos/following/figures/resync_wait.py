"""Until when desynchronized accounts wait: visits to one account are further apart each time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from trawlnet.crawlers.repos.following.live_state import LiveState, Standing
from trawlnet.crawlers.repos.following.live_store import DueVisit

LOOKED_AT = 10_000  # Visits: so many are soon counted, and whoever waits behind them waits long.
_ROUNDED = 0.001  # Seconds by which a stored time may differ from the one in a state.


class ResyncWait(NamedTuple):
    accounts: int = 0
    next_at: float | None = None  # Unix seconds of the first visit,
    last_at: float | None = None  # and of the last.


def resync_wait(
    visits: Iterable[DueVisit],
    states_of: Callable[[Collection[str]], Mapping[str, LiveState]],
) -> ResyncWait:
    """Of visits that are asked for, the earliest first. A repository may be being fetched
    meanwhile: then the visit is the one after that, should that fail."""
    visits = list(visits)
    states = states_of([one.did for one in visits])
    times = {one.did: at for one in visits if (at := _wait(states.get(one.did), one.at))}
    if not times:
        return ResyncWait()
    return ResyncWait(len(times), min(times.values()), max(times.values()))


def _wait(state: LiveState | None, at: float) -> float | None:
    """Until when, for one that is due then. Accounts that are synchronized may have visits, too,
    and some visits were put off since."""
    if state is None or state.standing is not Standing.DESYNCHRONIZED:
        return None
    if state.has_slot:
        return max(at, state.asked_at)  # It is looked at before its turn, too.
    return at if at >= state.asked_at - _ROUNDED else None
