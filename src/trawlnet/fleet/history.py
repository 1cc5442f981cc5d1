"""The history of a fleet's figures in Redis: dense for the last hour, sparser before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trawlnet.engine.ports import Counts
from trawlnet.observe.history import TIERS, Sample, line_of, picked, samples_of
from trawlnet.stores.redis.window import FleetWindow

# Fields of a shard's report that are no figures of its results.
_OF_SHARDS = frozenset(
    (
        *("token", "version", "node", "pid", "dry", "draining", "paused", "settled"),
        *("rate", "attempts", "in_flight", "workers", "memory", "stands"),
    )
)


class FleetHistory:
    """The only writer: the fleet's command."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    async def add(self, window: FleetWindow, at: float, figures: Mapping[str, float]) -> None:
        """Add a sample to each tier that is due."""
        for tier in TIERS:
            if tier.wants(at, self._last.get(tier.name, 0.0)):
                self._last[tier.name] = at
                await window.remember(tier.name, line_of(at, figures), tier.length)


async def read_fleet_history(window: FleetWindow, since: float, most: int) -> list[Sample]:
    return picked(
        [list(samples_of(await window.remembered(tier.name))) for tier in TIERS], since, most
    )


def figures_of(counts: Counts, shards: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of a fleet, named as those of a crawl on one machine; sums over its shards."""
    figures: dict[str, float] = {
        "done": sum(counts.settled.values()) + counts.scheduled,
        "open": counts.open,
        "blocked": counts.blocked,
        "attempts": sum(counts.attempts.values()),
        "errors": sum(n for reason, n in counts.attempts.items() if not reason.success),
    }
    for name in ("in_flight", "workers", "memory"):
        figures[name] = sum(row.get(name, 0) for row in shards)
    return figures | yields_of(shards)


def yields_of(shards: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The results of the shards since each began its term."""
    found: dict[str, float] = {}
    for row in shards:
        for name, value in row.items():
            if name not in _OF_SHARDS and isinstance(value, int | float):
                found[name] = found.get(name, 0) + value
    return found
