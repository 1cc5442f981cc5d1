"""How much of one scope is fetched: so many pages of a repository, so many dates of a calendar.

Successes count, and each page once: the counts are those of the page index, in which a page that
a crash made us fetch twice is still one page. So they need no memory of their own to survive.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

from trawlnet.crawlers.web.policy import CapKey

Scopes = Callable[[str, str], list[CapKey]]  # Of a URL and its page type.


class Caps:
    def __init__(self, scopes: Scopes, captured: Iterable[tuple[str, str]] = ()) -> None:
        """`captured` are the URLs that have been fetched with success, with their types."""
        self._scopes = scopes
        self._kept: Counter[CapKey] = Counter()
        for url, page_type in captured:
            self._kept.update(scopes(url, page_type))
        self._taken: Counter[CapKey] = Counter(self._kept)  # Kept, or being fetched.
        self._changed = asyncio.Event()

    def full(self, url: str, page_type: str) -> str:
        """The cap that is reached for a page; empty if there is room."""
        return _first(self._scopes(url, page_type), self._kept)

    async def take(self, url: str, page_type: str) -> str:
        """Take a place; returns the cap that forbids it, empty for done. While the last places
        are taken by pages that may yet fail, it waits for their end."""
        scopes = self._scopes(url, page_type)
        while _first(scopes, self._taken):
            if why := _first(scopes, self._kept):
                return why
            self._changed.clear()
            await self._changed.wait()
        self._taken.update(scopes)
        return ""

    def leave(self, url: str, page_type: str, *, kept: bool) -> None:
        """The page that took a place is over."""
        for scope in self._scopes(url, page_type):
            if kept:
                self._kept[scope] += 1
            else:
                self._taken[scope] -= 1
        self._changed.set()


def _first(scopes: Iterable[CapKey], counts: Counter[CapKey]) -> str:
    for scope in scopes:
        if counts[scope] >= scope.most:
            return f"{scope.name}: {scope.most} of {scope.scope}"
    return ""
