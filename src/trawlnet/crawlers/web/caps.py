"""How much of one scope is fetched: so many pages of a repository, so many dates of a calendar.

Successes count, and each page once: the counts are those of the page index, in which a page that
a crash made us fetch twice is still one page. So they need no memory of their own to survive.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from trawlnet.crawlers.web.policy import CapKey

Scopes = Callable[[str, str], list[CapKey]]  # Of a URL and its page type.
_UNDER_WAY = 1024  # Pages whose scopes are known without looking: each is asked about three times.


class Caps:
    def __init__(self, scopes: Scopes, captured: Iterable[tuple[str, str]] = ()) -> None:
        """`captured` are the URLs that have been fetched with success, with their types."""
        self._scopes = lru_cache(maxsize=_UNDER_WAY)(scopes)
        # By hash: there may be as many scopes as pages, and their names are long.
        self._kept: Counter[int] = Counter()
        self._under_way: Counter[int] = Counter()
        self._changed = asyncio.Event()
        for url, page_type in captured:
            self._kept.update(map(hash, scopes(url, page_type)))

    def full(self, url: str, page_type: str) -> str:
        """The cap that is reached for a page; empty if there is room."""
        return self._first(self._scopes(url, page_type))

    async def take(self, url: str, page_type: str) -> str:
        """Take a place; returns the cap that forbids it, empty for done. While the last places
        are taken by pages that may yet fail, it waits for their end."""
        scopes = self._scopes(url, page_type)
        while any(self._taken(scope) >= scope.most for scope in scopes):
            if why := self._first(scopes):
                return why
            self._changed.clear()
            await self._changed.wait()
        self._under_way.update(map(hash, scopes))
        return ""

    def leave(self, url: str, page_type: str, *, kept: bool) -> None:
        """The page that took a place is over."""
        for scope in map(hash, self._scopes(url, page_type)):
            self._under_way[scope] -= 1
            if not self._under_way[scope]:
                del self._under_way[scope]
            if kept:
                self._kept[scope] += 1
        self._changed.set()

    def _taken(self, scope: CapKey) -> int:
        return self._kept[hash(scope)] + self._under_way[hash(scope)]

    def _first(self, scopes: Iterable[CapKey]) -> str:
        for scope in scopes:
            if self._kept[hash(scope)] >= scope.most:
                return f"{scope.name}: {scope.most} of {scope.scope}"
        return ""
