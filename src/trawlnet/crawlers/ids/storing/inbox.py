"""Deliveries on their way from a queue to the workers that store them, taken in batches."""

from __future__ import annotations

import asyncio
from collections import deque

from trawlnet.queues.queue import Delivery


class DeliveryBatches:
    """Whoever takes gets all that has come together, up to a bound: batches grow with the load."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._waiting: deque[Delivery] = deque()
        self._closed = False
        self._changed = asyncio.Condition()

    async def put(self, delivery: Delivery) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < self._room or self._closed)
            if not self._closed:
                self._waiting.append(delivery)
                self._changed.notify_all()

    async def take(self, most: int) -> list[Delivery]:
        """At least one, unless it is closed and empty."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._changed.notify_all()
            return taken

    async def close(self, *, forget: bool) -> None:
        """No more comes. What waits is still handed out, unless it is to be forgotten."""
        async with self._changed:
            self._closed = True
            if forget:
                self._waiting.clear()
            self._changed.notify_all()
