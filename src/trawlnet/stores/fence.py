"""The lanes that a shard may change, and the parts that hold its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trawlnet.engine.partition import bucket_of


class Places(Protocol):
    """Maps a key to the part with its result, so that settling the key publishes the part."""

    def part_of(self, key: str) -> str:
        """The part of a key; empty for a key without a result."""

    def settled(self, keys: Iterable[str]) -> Iterable[str]:
        """These keys are settled; returns the parts that are complete."""


class NoPlaces:
    """For stores where settling publishes nothing."""

    def part_of(self, key: str) -> str:
        return ""

    def settled(self, keys: Iterable[str]) -> Iterable[str]:
        return ()


@dataclass(frozen=True, slots=True)
class Fence:
    token: str = ""  # Of this shard's present term; empty if the crawl is not shared.
    buckets: frozenset[int] = frozenset()
    places: Places = field(default_factory=NoPlaces)

    def covers(self, lane: str) -> bool:
        return not self.token or bucket_of(lane) in self.buckets


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """The `news` of a receipt for a RedisStore: added when a key is settled, once for each key."""

    counts: Mapping[str, int] = field(default_factory=dict)  # Counter -> its increase.
    left_out: Mapping[str, int] = field(default_factory=dict)  # Reason -> number of keys.
