"""No source: ids need no listing, since the ledger's askers count on from what is known."""

from __future__ import annotations

from collections.abc import AsyncIterator

from trawlnet.engine.ports import Page


class NoPages:
    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        nothing: tuple[Page, ...] = ()
        for page in nothing:
            yield page
