"""The mirrored directory as a crawl reads it: pages of DIDs, and what single ones stand for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from trawlnet.crawlers.repos.identity import Identity
from trawlnet.tables.ports import Tables
from trawlnet.tables.sql import statement

_LOOKUPS_AT_ONCE = 5000


class TableMirror:
    def __init__(self, tables: Tables, page_size: int) -> None:
        self._tables = tables
        self._page_size = page_size

    async def is_empty(self) -> bool:
        return not await self._end_of_page("", 1)

    async def pages(self, after: str) -> AsyncIterator[Sequence[Identity]]:
        """DIDs that can be visited, beyond one and in order."""
        while last := await self._end_of_page(after, self._page_size):
            parameters: Mapping[str, Any] = {"after": after, "last": last, "skip": []}
            rows = await self._tables.rows(statement("plc_did_page"), parameters)
            yield [Identity(did, pds, key) for did, pds, key in rows]
            after = last

    async def states(self, dids: Sequence[str]) -> Mapping[str, Identity]:
        found: dict[str, Identity] = {}
        for start in range(0, len(dids), _LOOKUPS_AT_ONCE):
            some = list(dids[start : start + _LOOKUPS_AT_ONCE])
            for row in await self._tables.rows(statement("plc_states"), {"dids": some}):
                did, pds, key, _handle, tombstoned = row
                found[did] = Identity(did, "" if tombstoned else pds, key)
        return found

    async def _end_of_page(self, after: str, size: int) -> str:
        rows = await self._tables.rows(
            statement("plc_did_page_end"), {"after": after, "size": size}
        )
        return str(rows[0][0]) if rows else ""
