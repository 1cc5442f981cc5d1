"""How the streams are doing, for people and for `status`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.atproto.streams.subscription import Subscription, seconds_of
from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.live_store import LiveFigures, look_at_live
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock

_EVERY = 1.0  # Seconds.
_LATELY = 30  # Looks: commits per second are those of the last half minute.


class LiveMeter:
    def __init__(
        self,
        follower: Follower,
        streams: Sequence[Subscription[Any]],
        clock: Clock,
        yields: MutableMapping[str, int],
    ) -> None:
        self._follower = follower
        self._streams = streams
        self._clock = clock
        self._yields = yields
        self._past: deque[tuple[float, int]] = deque(maxlen=_LATELY)

    async def run(self, control: Control) -> None:
        while True:
            self._look()
            await asyncio.sleep(_EVERY)

    def _look(self) -> None:
        figures, now = self._follower.figures, self._clock.now()
        self._past.append((now, figures.commits))
        then, before = self._past[0]
        seconds = now - then
        rate = (figures.commits - before) / seconds if seconds > 0 else 0.0
        behind = self._behind()
        self._yields.update(
            {
                "commits": figures.commits,
                "commits/s": round(rate),
                "verified": figures.verified,
                "rejected": sum(figures.rejected.values()),
                "desynchronized": figures.desynchronized,
                "resyncs": figures.resyncs,
            }
        )
        self._yields.pop("seconds behind", None)
        if behind is not None:
            self._yields["seconds behind"] = round(behind)

    def _behind(self) -> float | None:
        """Of the stream that is furthest behind; None before any has said something."""
        now = self._clock.now()
        found = [one.behind(now) for one in self._streams]
        return max((seconds for seconds in found if seconds is not None), default=None)

    def facts(self) -> Mapping[str, Any]:
        cursors = {one.upstream.host: self._follower.cursor(one.upstream) for one in self._streams}
        known = {host: one for host, one in cursors.items() if one is not None}
        troubles = {one.upstream.host: one.trouble for one in self._streams if one.trouble}
        row = live_row(self._follower.figures, known, self._behind())
        return {"live": row | ({"troubles": troubles} if troubles else {})}


def live_row(
    figures: LiveFigures, cursors: Mapping[str, HostCursor], behind: float | None
) -> dict[str, Any]:
    """`live` of `status`."""
    return {
        "cursor": {host: one.seq for host, one in cursors.items()},
        "seconds_behind": None if behind is None else round(behind, 3),
        "commits": figures.commits,
        "verified": figures.verified,
        "rejected": figures.rejected,
        "desynchronized": figures.desynchronized,
        "resyncs": figures.resyncs,
    }


def live_at_rest(state: Path, now: float) -> dict[str, Any] | None:
    """The same when nobody follows; None where nobody ever did."""
    look = look_at_live(state)
    if look is None:
        return None
    ages = [now - at for one in look.cursors.values() if (at := seconds_of(one.time)) is not None]
    return live_row(look.figures, look.cursors, max(0.0, *ages) if ages else None)
