"""What the web side needs of the registry and of the scanner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from trawlnet.tables.registry.browse import Browsed, BrowseQuery
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus, Registered
from trawlnet.tables.registry.stats import Stats

T = TypeVar("T")
Answering: TypeAlias = Coroutine[Any, Any, T]


class Books(Protocol):
    """The registry. Every method raises TablesError when it is away."""

    def get(self, url: str) -> Answering[PdsRow | None]: ...

    def register(self, url: str, source: PdsSource, *, now: float) -> Answering[Registered]: ...

    def listing(
        self,
        *,
        status: PdsStatus | None = None,
        source: PdsSource | None = None,
        contains: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Answering[Sequence[PdsRow]]:
        """In the order of URLs, beyond the URL `after`."""

    def browse(self, wish: BrowseQuery) -> Answering[Browsed]: ...

    def largest(self, limit: int = 10) -> Answering[Sequence[PdsRow]]: ...

    def stats(self, now: float) -> Answering[Stats]: ...


# Scans an account of a PDS until an instant; gives the number of records that were indexed.
ScanAccount = Callable[[str, str, float], Awaitable[int]]
