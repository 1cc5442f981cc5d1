"""A source that waits until firehoses are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from trawlnet.engine.ports import Page, Source

_PATIENCE = 30.0  # Seconds that the source waits for firehoses before it names anything.


class JoinedSource:
    """A source that names nothing before the firehoses are being read: what changes while it is
    crawled is heard of. One that cannot be reached is compared when it can."""

    def __init__(self, source: Source | None, began: Sequence[asyncio.Event]) -> None:
        self._source = source
        self._began = began

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        if self._source is None:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                for one in self._began:
                    await one.wait()
        except TimeoutError:
            pass
        async for page in self._source.pages(after):
            yield page
