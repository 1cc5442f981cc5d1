"""The alert rules of a crawl that follows firehoses: from looks at its streams to alerts; pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trawlnet.observe.alerts.rules import OVER
from trawlnet.observe.alerts.shapes import Alert, Level

CRAWLER = "repos"
BEHIND, AWAY, REJECTED = "firehose behind", "firehose not connected", "verification fails"
UNREADABLE = "firehose unreadable"
ALERT_BEHIND = 300.0  # Seconds, unless the config has another number.
# Share of the limit by which a delay must shrink within the limit: then it is being caught up with,
# in ten times the delay at the latest.
CATCH_UP_GAIN = 0.1
REJECTED_SHARE = 0.1  # Share of rejected messages of the last minutes at which the alert begins.
REJECTED_OVER = 0.05  # Share at which it ends.
REJECTED_LEAST = 50  # The least number of rejected messages at which it begins.
REJECTED_SPAN = 300.0  # Seconds.
_CAUGHT_UP = 0.5  # Share of the limit below which a stream is no longer behind.
_NAMED = 5  # Hosts that a message names; it counts the others.


@dataclass(frozen=True, slots=True)
class StreamsNow:
    at: float
    behind: Mapping[str, float]  # Seconds, by host, of streams that are connected.
    away: Mapping[str, float]  # Since when, by host, of the others.
    frames: int  # Messages in this run.
    rejected: Mapping[str, int]  # By reason, over all runs.
    # By host, how often messages were passed over that cannot be read.
    passed_over: Mapping[str, int] = field(default_factory=dict)


class _Delay(NamedTuple):
    """Of a stream that is too far behind: the last one by which it has gained."""

    at: float
    seconds: float


class LiveAlerts:
    """Remembers the present conditions, so that their ends raise alerts, too."""

    def __init__(self, limit: float = ALERT_BEHIND) -> None:
        self._limit = limit  # Seconds behind, and for how long; or without a connection.
        self._behind: frozenset[str] = frozenset()  # Hosts.
        self._delays: dict[str, _Delay] = {}  # By host.
        self._away: frozenset[str] = frozenset()
        self._is_rejecting = False
        self._passed_over: Mapping[str, int] = {}
        self._past: deque[StreamsNow] = deque()  # As long as the span, and one before.

    def looked(self, now: StreamsNow) -> list[Alert]:
        """Once a second or so."""
        streams = [*self._look_behind(now), *self._look_away(now), *self._look_unreadable(now)]
        return [*streams, *self._look_rejected(now)]

    def _look_behind(self, now: StreamsNow) -> list[Alert]:
        before = self._behind
        # One that is cut off while it is behind has not caught up.
        found = {h for h, seconds in now.behind.items() if self._is_behind(h, seconds, now.at)}
        self._behind = frozenset(found) | (before & now.away.keys())
        for host in self._delays.keys() - now.behind.keys():
            del self._delays[host]
        if fresh := self._behind - before:
            most = max(now.behind[host] for host in fresh)
            text = f"what is published is up to {_lasting(most)} old: {_named(fresh)}"
            fields = {host: _lasting(now.behind[host]) for host in sorted(fresh)[:_NAMED]}
            return [Alert(CRAWLER, BEHIND, text, now.at, Level.WARNING, fields)]
        if before and not self._behind:
            return [Alert(CRAWLER, BEHIND + OVER, "following has caught up", now.at)]
        return []

    def _is_behind(self, host: str, seconds: float, at: float) -> bool:
        """After a pause every stream is; it is worth an alert when that does not get better."""
        if host in self._behind:
            return seconds > self._limit * _CAUGHT_UP
        if seconds <= self._limit:
            self._delays.pop(host, None)
            return False
        last = self._delays.get(host)
        if last is None or seconds <= last.seconds - CATCH_UP_GAIN * self._limit:
            self._delays[host] = _Delay(at, seconds)
            return False
        return at - last.at > self._limit

    def _look_away(self, now: StreamsNow) -> list[Alert]:
        before = self._away
        long = (host for host, since in now.away.items() if now.at - since > self._limit)
        self._away = frozenset(long)
        if fresh := self._away - before:
            most = max(now.at - now.away[host] for host in fresh)
            text = f"no connection for {_lasting(most)}: {_named(fresh)}"
            return [Alert(CRAWLER, AWAY, text, now.at, Level.ERROR)]
        if before and not self._away:
            return [Alert(CRAWLER, AWAY + OVER, "every firehose is connected again", now.at)]
        return []

    def _look_unreadable(self, now: StreamsNow) -> list[Alert]:
        """Over at once: the stream goes on behind them."""
        fresh = Counter(now.passed_over) - Counter(self._passed_over)
        self._passed_over = now.passed_over
        if not fresh:
            return []
        text = (
            f"passed over what cannot be read, and compare what it may have said: {_named(fresh)}"
        )
        return [Alert(CRAWLER, UNREADABLE, text, now.at, Level.WARNING)]

    def _look_rejected(self, now: StreamsNow) -> list[Alert]:
        self._past.append(now)
        while len(self._past) > 1 and self._past[1].at <= now.at - REJECTED_SPAN:
            self._past.popleft()
        first, before = self._past[0], self._is_rejecting
        reasons = Counter(now.rejected) - Counter(first.rejected)
        count, frames = reasons.total(), max(now.frames - first.frames, reasons.total())
        if before:
            self._is_rejecting = count > REJECTED_OVER * frames
        else:
            self._is_rejecting = count >= REJECTED_LEAST and count > REJECTED_SHARE * frames
        if self._is_rejecting and not before:
            text = f"{count:,} of the last {frames:,} messages failed verification"
            fields = {reason: f"{n:,}" for reason, n in reasons.most_common(_NAMED)}
            return [Alert(CRAWLER, REJECTED, text, now.at, Level.WARNING, fields)]
        if before and not self._is_rejecting:
            text = "nearly every message passes verification again"
            return [Alert(CRAWLER, REJECTED + OVER, text, now.at)]
        return []


def _named(hosts: Collection[str]) -> str:
    listed = ", ".join(sorted(hosts)[:_NAMED])
    return listed + (f" and {len(hosts) - _NAMED:,} more" if len(hosts) > _NAMED else "")


def _lasting(seconds: float) -> str:
    return f"{seconds / 60:,.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
