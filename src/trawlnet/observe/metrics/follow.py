"""The metrics of a crawl that follows firehoses. Labels are closed sets, or hosts that the user
has named: nothing that a server sends becomes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.families import by_label, one_sample


@dataclass(frozen=True, slots=True)
class UpstreamFigures:
    host: str
    is_connected: bool
    behind: float | None  # Seconds; None before the first message.
    passed_over: int  # Times that it was joined behind messages that cannot be read.


@dataclass(frozen=True, slots=True)
class FollowFigures:
    """Counters are those of this run, with every word of their closed sets."""

    upstreams: Sequence[UpstreamFigures]
    frames: Mapping[str, int]  # By kind.
    verified: int
    rejected: Mapping[str, int]  # By reason.
    begun: Mapping[str, int]  # Resyncs by cause,
    ended: Mapping[str, int]  # and by result.
    events: int
    gaps: int
    desynchronized: int  # Repositories that are so now.
    waiting_frames: int
    waiting_bytes: int
    comparing: int  # Pages of listings.
    lookups_waiting: int  # Of identities in doubt,
    lookups_dropped: int  # and those for which there was no room.


class FollowMeter(Collector):
    def __init__(self, metrics: CrawlMetrics, figures: Callable[[], FollowFigures]) -> None:
        self._figures = figures
        metrics.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        now = self._figures()
        behind = {one.host: one.behind for one in now.upstreams if one.behind is not None}
        yield by_label(names.FOLLOW_BEHIND, behind)
        connected = {one.host: float(one.is_connected) for one in now.upstreams}
        yield by_label(names.FOLLOW_CONNECTED, connected)
        passed_over = {one.host: one.passed_over for one in now.upstreams}
        yield by_label(names.FOLLOW_PASSED_OVER, passed_over)
        yield by_label(names.FOLLOW_FRAMES, now.frames)
        yield one_sample(names.FOLLOW_VERIFIED, now.verified)
        yield by_label(names.FOLLOW_REJECTED, now.rejected)
        yield one_sample(names.FOLLOW_DESYNCHRONIZED, now.desynchronized)
        yield by_label(names.FOLLOW_RESYNCS_BEGUN, now.begun)
        yield by_label(names.FOLLOW_RESYNCS_ENDED, now.ended)
        yield one_sample(names.FOLLOW_WAITING_FRAMES, now.waiting_frames)
        yield one_sample(names.FOLLOW_WAITING_BYTES, now.waiting_bytes)
        yield one_sample(names.FOLLOW_EVENTS, now.events)
        yield one_sample(names.FOLLOW_GAPS, now.gaps)
        yield one_sample(names.FOLLOW_COMPARING, now.comparing)
        yield one_sample(names.FOLLOW_LOOKUPS_WAITING, now.lookups_waiting)
        yield one_sample(names.FOLLOW_LOOKUPS_DROPPED, now.lookups_dropped)
