"""How the streams are doing, for people, for `status` and for Prometheus."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.crawlers.atproto.streams.subscription import Subscription
from trawlnet.crawlers.repos.following.figures.live_alerts import LiveAlerts, StreamsNow
from trawlnet.crawlers.repos.following.figures.live_row import live_row
from trawlnet.crawlers.repos.following.figures.resync_wait import LOOKED_AT, ResyncWait, resync_wait
from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.frames import FrameKind
from trawlnet.crawlers.repos.following.judging import Rejection
from trawlnet.crawlers.repos.following.live_state import ResyncCause, ResyncEnd
from trawlnet.crawlers.repos.following.lookups import IdentityLookups
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.observe.alerts.sender import Alerts
from trawlnet.observe.metrics.follow import FollowFigures, UpstreamFigures

_EVERY = 1.0  # Seconds.
_COUNT_EVERY = 10  # Looks: accounts that wait are counted seldom.
_LATELY = 30  # Looks: commits per second are those of the last half minute.
_EVENT_QUEUE = "event_queue"  # Beside hosts, which have a dot or a port.
_REASONS = (*Refusal, *Rejection)


@dataclass(frozen=True, slots=True)
class MeterOutputs:
    """Where a meter writes what it sees."""

    yields: MutableMapping[str, int]
    rules: LiveAlerts
    alerts: Alerts


class LiveMeter:
    def __init__(
        self,
        follower: Follower,
        streams: Sequence[Subscription[Any]],
        lookups: IdentityLookups,
        clock: Clock,
        outputs: MeterOutputs,
    ) -> None:
        self._follower = follower
        self._streams = streams
        self._lookups = lookups
        self._clock = clock
        self._outputs = outputs
        self._at_first = follower.figures
        self._past: deque[tuple[float, int]] = deque(maxlen=_LATELY)
        self._wait = ResyncWait()

    async def run(self, control: Control) -> None:
        for number in count():
            if number % _COUNT_EVERY == 0:
                self._wait = await self._follower.in_pool(self._counted)
            self._look()
            await asyncio.sleep(_EVERY)

    def _counted(self) -> ResyncWait:
        live = self._follower.parts.live
        return resync_wait(live.first_due(LOOKED_AT), live.states)

    def _look(self) -> None:
        figures, now, yields = self._follower.figures, self._clock.now(), self._outputs.yields
        self._past.append((now, figures.commits))
        rejected = sum(figures.rejected.values())
        yields.update(
            {
                "commits": figures.commits,
                "commits/s": round(self._rate()),
                "verified": figures.verified,
                "rejected": rejected,
                "desynchronized": figures.desynchronized,
                "resyncs": figures.resyncs,
            }
        )
        yields.pop("seconds behind", None)
        if (behind := self._behind()) is not None:
            yields["seconds behind"] = round(behind)
        frames = self._follower.kinds.total()
        passed_over = {one.upstream.host: one.passed_over for one in self._streams}
        looked = (now, self._delays(), self._absences(), frames, figures.rejected, passed_over)
        seen = StreamsNow(*looked)
        for alert in self._outputs.rules.looked(seen):
            self._outputs.alerts.tell(alert)

    def _rate(self) -> float:
        """Commits per second, lately."""
        if len(self._past) < 2:
            return 0.0
        (then, before), (now, commits) = self._past[0], self._past[-1]
        return (commits - before) / (now - then) if now > then else 0.0

    def _delays(self) -> Mapping[str, float]:
        """Seconds behind of those that are connected, by host."""
        now = self._clock.now()
        found = {one.upstream.host: one.behind(now) for one in self._streams if one.is_connected}
        return {host: seconds for host, seconds in found.items() if seconds is not None}

    def _absences(self) -> Mapping[str, float]:
        """Since when the others are not, by host."""
        away = (one for one in self._streams if not one.is_connected)
        return {one.upstream.host: one.away_since for one in away}

    def _behind(self) -> float | None:
        """Of the stream that is furthest behind; None before any has said something."""
        now = self._clock.now()
        found = [one.behind(now) for one in self._streams]
        return max((seconds for seconds in found if seconds is not None), default=None)

    def figures(self) -> FollowFigures:
        """For Prometheus."""
        now, first = self._clock.now(), self._at_first
        figures, held = self._follower.figures, self._follower.held
        kinds = self._follower.kinds
        return FollowFigures(
            [
                UpstreamFigures(
                    one.upstream.host, one.is_connected, one.behind(now), one.passed_over
                )
                for one in self._streams
            ],
            {str(kind): kinds[kind] for kind in FrameKind},
            figures.verified - first.verified,
            _grown(_REASONS, figures.rejected, first.rejected),
            _grown(ResyncCause, figures.begun, first.begun),
            _grown(ResyncEnd, figures.ended, first.ended),
            figures.events - first.events,
            figures.gaps - first.gaps,
            figures.desynchronized,
            len(held),
            held.bytes,
            figures.comparing,
            len(self._lookups),
            self._lookups.dropped,
        )

    def facts(self) -> Mapping[str, Any]:
        cursors = {one.upstream.host: self._follower.cursor(one.upstream) for one in self._streams}
        known = {host: one for host, one in cursors.items() if one is not None}
        row = live_row(self._follower.figures, known, self._behind(), self._wait)
        held, now = self._follower.held, self._clock.now()
        row |= {
            "commits_per_s": round(self._rate(), 1),
            "waiting": {"frames": len(held), "bytes": held.bytes},
            "lookups": {"waiting": len(self._lookups), "dropped": self._lookups.dropped},
            "upstreams": {one.upstream.host: _upstream_row(one, now) for one in self._streams},
        }
        troubles = {one.upstream.host: one.trouble for one in self._streams if one.trouble}
        if trouble := self._follower.parts.events.trouble:
            troubles[_EVENT_QUEUE] = trouble
        return {"live": row | ({"troubles": troubles} if troubles else {})}


def _grown(
    words: Iterable[str], now: Mapping[str, int], first: Mapping[str, int]
) -> Mapping[str, int]:
    """Of each word, so that a series is there before it grows."""
    return {str(word): now.get(word, 0) - first.get(word, 0) for word in words}


def _upstream_row(stream: Subscription[Any], now: float) -> dict[str, Any]:
    behind = stream.behind(now)
    return {
        "connected": stream.is_connected,
        "seconds_behind": None if behind is None else round(behind, 3),
    }
