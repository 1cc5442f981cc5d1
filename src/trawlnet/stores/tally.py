"""What settling a task adds to counters that all processes of a crawl share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """The `news` of a receipt for a RedisStore: counted with the settlement, once for each key."""

    counts: Mapping[str, int] = field(default_factory=dict)  # Counter -> by how much it grows.
