"""One term of ownership: claimed when nobody else stands, kept by beats, given up at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trawlnet.engine.ports import Clock
from trawlnet.stores.errors import Fenced
from trawlnet.stores.redis.fleet.shards import Beat, FleetKeys, FleetPlan

_MARGIN: Final = 0.2  # Part of the time that it stands in which nothing more is begun.
_LOOK_AGAIN: Final = 1.0  # Seconds; whoever we wait for may give up early.


class ShardLease:
    """Between two beats it is our own clock that says whether we may still act: a process that was
    frozen finds its time over before it does anything else."""

    def __init__(self, keys: FleetKeys, shard: int, stands: float, clock: Clock) -> None:
        self.token = keys.token
        self._keys = keys
        self._shard = shard
        self._stands = stands
        self._clock = clock
        self._until = 0.0
        self._status: Mapping[str, Any] = {}

    async def claim(self, plan: FleetPlan, past: Sequence[str]) -> Sequence[str] | None:
        """Wait until our buckets are ours; gives the tokens that had them before, or None if the
        plan has changed meanwhile."""
        buckets = plan.buckets_of(self._shard)
        while True:
            asked = self._clock.now()
            claim = await self._keys.claim(plan, buckets, past, self._stands)
            if claim is None:
                return None
            if claim.granted:
                self._extend(asked)
                return claim.before
            await self._clock.sleep(min(claim.wait, _LOOK_AGAIN))

    async def beat(self, status: Mapping[str, Any]) -> Beat:
        """Raises Fenced when somebody else has our buckets."""
        self._status = status
        asked = self._clock.now()
        beat = await self._keys.beat(self._shard, status, self._stands)
        if not beat.stands:
            self._until = 0.0
            raise Fenced(f"{self.token} was replaced")
        self._extend(asked)
        return beat

    async def woken(self, most: int) -> Sequence[str]:
        """Lanes of ours for which others have found work."""
        return await self._keys.woken(most)

    def barred_until(self) -> float:
        """For the gate: 0 while we stand; else some time from now, for others to find out."""
        now = self._clock.now()
        return 0.0 if now < self._until else now + self._stands

    async def may_put(self) -> None:
        if self.barred_until():
            await self.beat(self._status)

    async def release(self) -> None:
        self._until = 0.0
        await self._keys.release()

    def _extend(self, asked: float) -> None:
        # From before the question: the answer may have been long on its way.
        self._until = asked + self._stands * (1.0 - _MARGIN)
