"""How long servers are still waited for, over all waits of one request together."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Patience:
    """What waits for a server uses some of it up: a connection by itself, whatever else in an
    `async with`."""

    __slots__ = ("_begun", "_timeout", "left", "total")

    def __init__(self, total: float) -> None:
        self.total = total
        self.left = total

    @property
    def spent(self) -> float:
        return self.total - self.left

    def lost(self) -> TimeoutError:
        return TimeoutError(f"no end within {self.total:g} s")

    async def __aenter__(self) -> None:
        self._begun = asyncio.get_running_loop().time()
        self._timeout = asyncio.timeout_at(self._begun + self.left)
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.left -= asyncio.get_running_loop().time() - self._begun
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self.lost() from None
