"""What one of many shards that share a crawl may touch, and where its results are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trawlnet.engine.partition import bucket_of


class Places(Protocol):
    """In which part of the archive a result is, so that settling its key publishes it."""

    def part_of(self, key: str) -> str:
        """Empty for a key without a result."""

    def settled(self, keys: Iterable[str]) -> Iterable[str]:
        """These keys are settled; gives the parts that will get no more of them."""


class NoPlaces:
    """For stores whose results are not published by settling."""

    def part_of(self, key: str) -> str:
        return ""

    def settled(self, keys: Iterable[str]) -> Iterable[str]:
        return ()


@dataclass(frozen=True, slots=True)
class Fence:
    token: str = ""  # Of this owner, in this term of its ownership; empty: nobody shares.
    buckets: frozenset[int] = frozenset()
    places: Places = field(default_factory=NoPlaces)

    def covers(self, lane: str) -> bool:
        return not self.token or bucket_of(lane) in self.buckets


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """The `news` of a receipt for a RedisStore: counted with the settlement, once for each key."""

    counts: Mapping[str, int] = field(default_factory=dict)  # Counter -> by how much it grows.
    left_out: Mapping[str, int] = field(default_factory=dict)  # By why, to be listed as a whole.
