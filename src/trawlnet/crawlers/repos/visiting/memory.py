"""Memory for repositories on their way to the archive: bounded in bytes, not in how many."""

from __future__ import annotations

import asyncio
from collections import deque

FIRST_BYTES = 256 << 10  # Of a body, that stay in memory however full it is.
_FOR_BODIES = 2  # They may take one part in so many, so that there is room to read them.


class MemoryBudget:
    """Shared by all workers. A repository is at first a body that grows, and then work: JSON and
    an index while it is read, its block until that is written.

    Bodies never wait: one that finds no room goes on to a file. Work waits in the order in which
    it came. What is under way ends without asking for more, so while there is something, waiting
    helps; when there is nothing, the first in line may begin whatever it takes. So nobody waits
    for ever, and a repository that takes more than the limit gets through, alone.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[_MemoryRequest] = deque()
        self.bodies = 0
        self.work = 0

    def ticket(self) -> Ticket:
        return Ticket(self)

    @property
    def used(self) -> int:
        return self.bodies + self.work

    @property
    def crowded(self) -> bool:
        """Whether bodies should leave memory to others."""
        return self.bodies * _FOR_BODIES > self._limit or self.used > self._limit

    async def begin(self, size: int) -> None:
        """Wait until there is room for work of this size."""
        if not self._waiting and self._fits(size):
            self.work += size
            return
        wish = _MemoryRequest(size)
        self._waiting.append(wish)
        try:
            await wish.granted
        except asyncio.CancelledError:
            # It may have been granted in the same instant.
            self.add(0, -size if wish.has_come_true else 0)
            raise

    def add(self, bodies: int, work: int) -> None:
        """So many bytes more, or fewer, are in use; unlike `begin`, this asks nobody."""
        self.bodies += bodies
        self.work += work
        while self._waiting and (self._waiting[0].given_up or self._fits(self._waiting[0].size)):
            wish = self._waiting.popleft()
            if not wish.given_up:
                self.work += wish.size
                wish.granted.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self.work or self.used + size <= self._limit


class _MemoryRequest:
    __slots__ = ("granted", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def given_up(self) -> bool:
        return self.granted.cancelled()

    @property
    def has_come_true(self) -> bool:
        return self.granted.done() and not self.granted.cancelled()


class Ticket:
    """What one repository takes, from its first byte until it is written."""

    __slots__ = ("_budget", "body", "work")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.body = 0
        self.work = 0

    def hold(self, size: int) -> bool:
        """The body is larger by so much. False: the memory is needed, it should go elsewhere."""
        self.body += size
        self._budget.bodies += size
        return self.body <= FIRST_BYTES or not self._budget.crowded

    def keep(self, size: int) -> None:
        """No more than this of the body is in memory now."""
        self._is_now(size, self.work)

    async def begin(self, size: int) -> None:
        """Wait until there is room to read the body; what was taken for that before is let go."""
        self._is_now(self.body, 0)
        await self._budget.begin(size)
        self.work = size

    def settle_at(self, size: int) -> None:
        """All that is left is a block of this size."""
        self._is_now(0, size)

    def close(self) -> None:
        """Give everything back; harmless when repeated."""
        self._is_now(0, 0)

    def _is_now(self, body: int, work: int) -> None:
        more, self.body = body - self.body, body
        more_work, self.work = work - self.work, work
        self._budget.add(more, more_work)
