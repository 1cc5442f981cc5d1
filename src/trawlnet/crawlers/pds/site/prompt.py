"""A registry that answers soon or not at all: people wait in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from trawlnet.crawlers.pds.site.ports import Books
from trawlnet.tables.errors import TablesUnreachable
from trawlnet.tables.registry.browse import Browsed, BrowseQuery
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus, Registered
from trawlnet.tables.registry.stats import Stats

T = TypeVar("T")

_MOST_WAITING = 64  # Questions without an answer, above which no more are asked.


class PromptBooks:
    """The same books under a deadline. A question that is given up on goes on by itself: it may
    be half-way through a transaction."""

    def __init__(self, books: Books, seconds: float) -> None:
        self._books = books
        self._seconds = seconds
        self._waiting: set[asyncio.Task[Any]] = set()

    async def get(self, url: str) -> PdsRow | None:
        return await self._soon(self._books.get(url))

    async def register(self, url: str, source: PdsSource, *, now: float) -> Registered:
        return await self._soon(self._books.register(url, source, now=now))

    async def listing(
        self,
        *,
        status: PdsStatus | None = None,
        source: PdsSource | None = None,
        contains: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[PdsRow]:
        return await self._soon(
            self._books.listing(
                status=status, source=source, contains=contains, after=after, limit=limit
            )
        )

    async def browse(self, wish: BrowseQuery) -> Browsed:
        return await self._soon(self._books.browse(wish))

    async def largest(self, limit: int = 10) -> Sequence[PdsRow]:
        return await self._soon(self._books.largest(limit))

    async def stats(self, now: float) -> Stats:
        return await self._soon(self._books.stats(now))

    async def _soon(self, question: Coroutine[Any, Any, T]) -> T:
        if len(self._waiting) >= _MOST_WAITING:
            question.close()
            raise TablesUnreachable("the registry is busy", "try again later")
        task = asyncio.create_task(question)
        self._waiting.add(task)
        task.add_done_callback(self._answered)
        done, _ = await asyncio.wait([task], timeout=self._seconds)
        if not done:
            raise TablesUnreachable(
                f"the registry did not answer within {self._seconds:g} s", "try again later"
            )
        return task.result()

    def _answered(self, task: asyncio.Task[Any]) -> None:
        self._waiting.discard(task)
        if not task.cancelled():
            task.exception()  # Looked at, so that a late one is not reported as forgotten.
