"""What `status` says about streams, while a process follows them and afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor, seconds_of
from trawlnet.crawlers.repos.following.figures.live_figures import LiveFigures
from trawlnet.crawlers.repos.following.figures.resync_wait import LOOKED_AT, ResyncWait, resync_wait
from trawlnet.crawlers.repos.following.live_store import (
    look_at_due,
    look_at_live,
    look_at_states,
)


def live_row(
    figures: LiveFigures,
    cursors: Mapping[str, HostCursor],
    behind: float | None,
    wait: ResyncWait,
) -> dict[str, Any]:
    """`live` of `status`."""
    return {
        "cursor": {host: one.seq for host, one in cursors.items()},
        "seconds_behind": None if behind is None else round(behind, 3),
        "commits": figures.commits,
        "verified": figures.verified,
        "rejected": figures.rejected,
        "desynchronized": figures.desynchronized,
        "resyncs_waiting": _wait_row(wait),
        "resyncs": figures.resyncs,
        "resyncs_begun": figures.begun,
        "resyncs_ended": figures.ended,
        "events": figures.events,
        "gaps": figures.gaps,
        "comparing": figures.comparing,
    }


def live_at_rest(state: Path, now: float) -> dict[str, Any] | None:
    """The same when nobody follows; None where nobody ever did."""
    look = look_at_live(state)
    if look is None:
        return None
    times = [
        seconds_of(one.time)
        for host, one in look.cursors.items()
        # One that is no longer followed is not behind: it is left.
        if look.followed is None or host in look.followed
    ]
    ages = [now - at for at in times if at is not None]
    wait = resync_wait(look_at_due(state, LOOKED_AT), partial(look_at_states, state))
    return live_row(look.figures, look.cursors, max(0.0, *ages) if ages else None, wait)


def _wait_row(wait: ResyncWait) -> dict[str, Any]:
    if wait.next_at is None or wait.last_at is None:
        return {"accounts": 0}
    return {
        "accounts": wait.accounts,
        "next_at": _iso(wait.next_at),
        "last_at": _iso(wait.last_at),
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
