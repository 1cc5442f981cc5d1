"""Limits that shards of one crawl share in Redis, used for every page: caps, and turns."""

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
    FULL = 1  # Final: counters never fall.
    BUSY = 2  # The last places are reserved by keys that may still fail.


@dataclass(frozen=True, slots=True)
class Want:
    """A request for places in a counter, or a check of it."""

    counter: str
    most: int
    places: int = 1  # 0: only check that the counter is not full.


@dataclass(frozen=True, slots=True)
class TakeResult:
    answer: PlaceAnswer
    want: Want | None = None  # The one that cannot be met.


class ShareKeys:
    """Acts for one shard, by the token of its present term."""

    def __init__(self, client: Redis, url: str, token: str, prefix: str = "crawler:") -> None:
        self._client = client
        self._token = token
        self._scripts = Scripts(client, url, prefix, _SCRIPTS, token)

    @classmethod
    def open(cls, url: str, token: str = "") -> ShareKeys:
        return cls(connect(url), url, token)

    async def close(self) -> None:
        await self._client.aclose()

    async def take(self, key: str, wants: Sequence[Want]) -> TakeResult:
        """Reserve all places or none, while the key is leased to us. Raises Fenced if it is
        not."""
        packed = [[want.counter, want.most, want.places] for want in wants]
        answer, number = await self._scripts.run("take", self._token, key, packed)
        return TakeResult(PlaceAnswer(answer), wants[number - 1] if number else None)

    async def turn(
        self, gaps: Mapping[str, float], longest: float, lane: str | None = None
    ) -> float:
        """Take the turn of these names, which no other shard then has, for at most `seconds`.
        `gaps` are the seconds between two requests to each name. Returns 0, or the seconds after
        which to try again. Raises Fenced if the lane is no longer ours."""
        held = _milliseconds(longest)
        waited = await self._scripts.run("turn", _pairs(gaps), held, lane or False)
        return float(waited) / 1000.0

    async def turned(self, gaps: Mapping[str, float]) -> None:
        """End the turn; the next one waits for the gap of each name."""
        await self._scripts.run("turned", _pairs(gaps))


def _pairs(gaps: Mapping[str, float]) -> list[tuple[str, int]]:
    return [(name, _milliseconds(gap)) for name, gap in gaps.items()]


def _milliseconds(seconds: float) -> int:
    """Rounded up, and at least one."""
    return max(1, -int(-seconds * 1000.0 // 1))
