"""The mirrored directory as this crawl reads it: pages of DIDs, and what single ones stand for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence

from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.tables.clickhouse.plc import did_pages, did_states, unhoused
from trawlnet.tables.clickhouse.ports import Tables


class TableMirror:
    def __init__(self, tables: Tables, page_size: int, buckets: Collection[int] = ()) -> None:
        self._tables = tables
        self._buckets = buckets  # Of lanes, for one of many that share a crawl; empty: all.
        self._page_size = page_size

    async def is_empty(self) -> bool:
        async for _ in did_pages(self._tables, page_size=1):
            return False
        return True

    async def pages(self, after: str) -> AsyncIterator[Sequence[RepoIdentity]]:
        """DIDs that can be visited, beyond one and in order."""
        async for page in did_pages(self._tables, after, self._page_size, buckets=self._buckets):
            yield [RepoIdentity(*row) for row in page]

    async def unhoused(self, after: str, last: str, most: int) -> Sequence[tuple[str, str]]:
        """DIDs of a range that cannot be visited, and why: for the record. Of many that share a
        crawl one tells of them."""
        if most <= 0 or (self._buckets and min(self._buckets) > 0):
            return []
        return await unhoused(self._tables, after, last, most)

    async def states(self, dids: Sequence[str]) -> Mapping[str, RepoIdentity]:
        found = await did_states(self._tables, dids)
        return {did: RepoIdentity(did, row.pds, row.signing_key) for did, row in found.items()}
