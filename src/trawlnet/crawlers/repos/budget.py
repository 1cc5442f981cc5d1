"""Memory for repositories on their way to the archive: bounded in bytes, not in how many."""

from __future__ import annotations

import asyncio


class MemoryBudget:
    """Shared by all workers. Nobody knows how large a repository is before it has come, so each
    takes memory as bytes arrive. If all of it is taken by unfinished ones, the oldest of them may
    go on: so that one always ends, at the price of one repository above the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._growing: dict[Ticket, None] = {}  # In order of age.
        self._waiters: list[asyncio.Future[None]] = []
        self.used = 0

    def ticket(self) -> Ticket:
        ticket = Ticket(self)
        self._growing[ticket] = None
        return ticket

    async def take(self, ticket: Ticket, size: int) -> None:
        while self.used + size > self._limit and not self._is_oldest(ticket):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
        self._wake()

    def stops_growing(self, ticket: Ticket) -> None:
        self._growing.pop(ticket, None)
        self._wake()

    def _is_oldest(self, ticket: Ticket) -> bool:
        return next(iter(self._growing), None) is ticket

    def _wake(self) -> None:
        # All of them: whoever is the oldest now may be any of them.
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Ticket:
    """What one repository holds, from its first byte until it is written."""

    __slots__ = ("_budget", "held")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.held = 0

    async def grow(self, size: int) -> None:
        """Wait until there is memory for so many more bytes."""
        await self._budget.take(self, size)
        self.held += size

    def settle_at(self, size: int) -> None:
        """It will not grow any more: what it became takes so many bytes."""
        self._budget.stops_growing(self)
        excess, self.held = self.held - size, size
        self._budget.give_back(excess)

    def close(self) -> None:
        """Give everything back; harmless when repeated."""
        self.settle_at(0)
