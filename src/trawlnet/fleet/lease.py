"""The lease of a shard on its buckets: claimed, renewed by heartbeats, released at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trawlnet.engine.ports import Clock
from trawlnet.stores.errors import Fenced
from trawlnet.stores.redis.fleet.shards import Beat, FleetKeys, FleetPlan

_MARGIN: Final = 0.2  # Share of the ttl before its end in which nothing more is started.
_LOOK_AGAIN: Final = 1.0  # Seconds; the previous owner may release its lease early.


class ShardLease:
    """Between two heartbeats our own clock decides whether the lease is valid: a process that was
    frozen finds its lease over before it does anything else."""

    def __init__(self, keys: FleetKeys, shard: int, stands: float, clock: Clock) -> None:
        self.token = keys.token
        self._keys = keys
        self._shard = shard
        self._stands = stands
        self._clock = clock
        self._until = 0.0
        self._status: Mapping[str, Any] = {}

    async def claim(self, plan: FleetPlan, past: Sequence[str]) -> Sequence[str] | None:
        """Wait until our buckets are free and claim them; returns the tokens of their previous
        owners, or None if the plan has changed meanwhile."""
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
        """Raises Fenced if another shard owns our buckets."""
        self._status = status
        asked = self._clock.now()
        beat = await self._keys.beat(self._shard, status, self._stands)
        if not beat.stands:
            self._until = 0.0
            raise Fenced(f"{self.token} was replaced")
        self._extend(asked)
        return beat

    async def woken(self, most: int) -> Sequence[str]:
        """Lanes of ours for which other shards have found work."""
        return await self._keys.woken(most)

    def barred_until(self) -> float:
        """For the gate: 0 while the lease is valid; else a later time, until the next heartbeat."""
        now = self._clock.now()
        return 0.0 if now < self._until else now + self._stands

    async def may_put(self) -> None:
        if self.barred_until():
            await self.beat(self._status)

    async def release(self) -> None:
        self._until = 0.0
        await self._keys.release()

    def _extend(self, asked: float) -> None:
        # Counted from before the request: the answer may have been delayed.
        self._until = asked + self._stands * (1.0 - _MARGIN)
