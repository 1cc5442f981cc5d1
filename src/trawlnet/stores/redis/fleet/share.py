"""What shards of one crawl ask each other in Redis for every page: places under caps, and turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from redis.asyncio import Redis

from trawlnet.stores.redis.scripts import Scripts, connect

_SCRIPTS: Final = ("take", "turn", "turned")


class PlaceAnswer(IntEnum):
    TAKEN = 0
    FULL = 1  # For good: counters never fall.
    BUSY = 2  # The last places are taken by keys that may yet come to nothing.


@dataclass(frozen=True, slots=True)
class Want:
    """A place in a counter, or a look at it."""

    counter: str
    most: int
    places: int = 1  # 0: it must not be full, and that is all.


@dataclass(frozen=True, slots=True)
class Taken:
    answer: PlaceAnswer
    want: Want | None = None  # The one that stands in the way.


class ShareKeys:
    """Speaks for one shard in one term of its ownership, by its token."""

    def __init__(self, client: Redis, url: str, token: str, prefix: str = "crawler:") -> None:
        self._client = client
        self._token = token
        self._scripts = Scripts(client, url, prefix, _SCRIPTS, token)

    @classmethod
    def open(cls, url: str, token: str = "") -> ShareKeys:
        return cls(connect(url), url, token)

    async def close(self) -> None:
        await self._client.aclose()

    async def take(self, key: str, wants: Sequence[Want]) -> Taken:
        """All of them or none, for as long as the key is leased to us. Raises Fenced if it is
        not."""
        packed = [[want.counter, want.most, want.places] for want in wants]
        answer, number = await self._scripts.run("take", self._token, key, packed)
        return Taken(PlaceAnswer(answer), wants[number - 1] if number else None)

    async def turn(
        self, gaps: Mapping[str, float], longest: float, lane: str | None = None
    ) -> float:
        """Be the only shard to ask there, for so many seconds at most. `gaps` are the seconds
        that each name is left alone after a request. Returns 0, or after how long it is worth
        asking again. Raises Fenced if the lane is no longer ours."""
        held = _milliseconds(longest)
        waited = await self._scripts.run("turn", _pairs(gaps), held, lane or False)
        return float(waited) / 1000.0

    async def turned(self, gaps: Mapping[str, float]) -> None:
        """We have asked; the next one waits for the gap of each name."""
        await self._scripts.run("turned", _pairs(gaps))


def _pairs(gaps: Mapping[str, float]) -> list[tuple[str, int]]:
    return [(name, _milliseconds(gap)) for name, gap in gaps.items()]


def _milliseconds(seconds: float) -> int:
    """At least one, and never a shorter time."""
    return max(1, -int(-seconds * 1000.0 // 1))
