"""What the web side needs of the registry and of the scanner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from trawlnet.tables.registry_rules import PdsRow, Registered, Source, Status
from trawlnet.tables.registry_stats import Stats


class Books(Protocol):
    """The registry. Every method raises TablesError when it is away."""

    async def get(self, url: str) -> PdsRow | None: ...

    async def register(self, url: str, source: Source, *, now: float) -> Registered: ...

    async def listing(
        self,
        *,
        status: Status | None = None,
        source: Source | None = None,
        contains: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[PdsRow]:
        """In the order of URLs, beyond the URL `after`."""

    async def largest(self, limit: int = 10) -> Sequence[PdsRow]: ...

    async def stats(self, now: float) -> Stats: ...


# Scans one account on a PDS now; gives the number of records that were indexed.
ScanAccount = Callable[[str, str], Awaitable[int]]
