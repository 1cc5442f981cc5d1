"""The budget of one run: pages and bytes in all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Budget:
    """Exact in pages: the last ones start only when earlier ones have failed."""

    def __init__(
        self, most_pages: int | None, most_bytes: int | None, received: Callable[[], int]
    ) -> None:
        self._most_pages = most_pages
        self._most_bytes = most_bytes
        self._received = received  # Bytes on the wire so far.
        self._fetched = 0
        self._begun = 0  # Pages in flight.
        self._changed = asyncio.Event()

    def spent(self) -> bool:
        if self._most_bytes is not None and self._received() >= self._most_bytes:
            return True
        return self._most_pages is not None and self._fetched >= self._most_pages

    async def take(self) -> bool:
        """Whether one more page may be fetched; waits while that depends on pages in flight."""
        while not self.spent():
            if self._most_pages is None or self._fetched + self._begun < self._most_pages:
                self._begun += 1
                return True
            self._changed.clear()
            await self._changed.wait()
        return False

    def leave(self, *, fetched: bool) -> None:
        self._begun -= 1
        self._fetched += fetched
        self._changed.set()
