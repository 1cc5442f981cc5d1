"""How much of one scope is fetched: so many pages of a repository, so many of a user.

Successes count, and each page once: the counts are those of the page index, in which a page that
a crash made us fetch twice is still one page. So they need no memory of their own to survive.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cap:
    name: str  # What is counted, for people.
    pattern: re.Pattern[str]  # Searched in the URL; what its first group matches is the scope.
    most: int


_Scope = tuple[int, str]  # Which cap, and the scope's name.


class Caps:
    def __init__(self, caps: Sequence[Cap], captured: Iterable[str] = ()) -> None:
        """`captured` are the URLs that have been fetched with success."""
        self._caps = caps
        self._kept: Counter[_Scope] = Counter()
        self._taken: Counter[_Scope] = Counter()  # Kept, or being fetched.
        self._changed = asyncio.Event()
        if caps:
            for url in captured:
                self._kept.update(self._scopes(url))
            self._taken.update(self._kept)

    def full(self, url: str) -> str:
        """The cap that is reached for a URL; empty if there is room."""
        return self._first(url, self._kept)

    async def take(self, url: str) -> str:
        """Take a place; returns the cap that forbids it, empty for done. While the last places
        are taken by pages that may yet fail, it waits for their end."""
        while self._first(url, self._taken):
            if why := self.full(url):
                return why
            self._changed.clear()
            await self._changed.wait()
        self._taken.update(self._scopes(url))
        return ""

    def leave(self, url: str, *, kept: bool) -> None:
        """The page that took a place is over."""
        for scope in self._scopes(url):
            if kept:
                self._kept[scope] += 1
            else:
                self._taken[scope] -= 1
        self._changed.set()

    def _first(self, url: str, counts: Counter[_Scope]) -> str:
        for scope in self._scopes(url):
            cap = self._caps[scope[0]]
            if counts[scope] >= cap.most:
                return f"{cap.name}: {cap.most} of {scope[1]}"
        return ""

    def _scopes(self, url: str) -> list[_Scope]:
        found = []
        for number, cap in enumerate(self._caps):
            if match := cap.pattern.search(url):
                found.append((number, match[1] if cap.pattern.groups else match[0]))
        return found
