"""How much of one scope is fetched: so many pages of a repository, so many dates of a calendar.

Successes count, and each page once: the counts are those of the page index, in which a page that
a crash made us fetch twice is still one page. So they need no memory of their own to survive.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol

from trawlnet.crawlers.web.admission.policy import CapKey
from trawlnet.engine.task import Task

Scopes = Callable[[str, str], list[CapKey]]  # Of a URL and its page type.
_UNDER_WAY = 1024  # Pages whose scopes are known without looking: each is asked about three times.


class PageCaps(Protocol):
    """Room for pages, wherever they are counted."""

    def full(self, url: str, page_type: str) -> str:
        """The cap that is known to be reached for a page; empty if there may be room."""

    async def take(self, task: Task, url: str, page_type: str) -> str:
        """Take a place; returns the cap that forbids it, empty for done."""

    def leave(self, url: str, page_type: str, *, kept: bool) -> None:
        """The page that took a place is over."""


class Caps:
    """Those of one process."""

    def __init__(self, scopes: Scopes, before: Callable[[CapKey], int] = lambda scope: 0) -> None:
        """`before` tells how many pages of a scope are in the index: those of earlier runs, and
        those of a process that is at work beside this one."""
        self._scopes = lru_cache(maxsize=_UNDER_WAY)(scopes)
        self._before = before
        # By hash: there may be as many scopes as pages, and their names are long.
        self._kept: dict[int, int] = {}
        self._under_way: Counter[int] = Counter()
        self._changed = asyncio.Event()

    def full(self, url: str, page_type: str) -> str:
        return self._first(self._scopes(url, page_type))

    async def take(self, task: Task, url: str, page_type: str) -> str:
        """While the last places are taken by pages that may yet fail, it waits for their end."""
        scopes = self._scopes(url, page_type)
        for scope in scopes:
            # Once for each page that is fetched; the many links are told what is known.
            self._kept[hash(scope)] = max(self._fetched(scope), self._before(scope))
        while any(self._taken(scope) >= scope.most for scope in scopes):
            if why := self._first(scopes):
                return why
            self._changed.clear()
            await self._changed.wait()
        for scope in scopes:
            self._under_way[hash(scope)] += 1
        return ""

    def leave(self, url: str, page_type: str, *, kept: bool) -> None:
        for scope in self._scopes(url, page_type):
            number = hash(scope)
            self._under_way[number] -= 1
            if not self._under_way[number]:
                del self._under_way[number]
            if kept:
                self._kept[number] = self._fetched(scope) + 1
        self._changed.set()

    def _taken(self, scope: CapKey) -> int:
        return self._fetched(scope) + self._under_way[hash(scope)]

    def _fetched(self, scope: CapKey) -> int:
        """Looked up when a scope is first met: before any page of it can come from this run."""
        number = hash(scope)
        kept = self._kept.get(number)
        if kept is None:
            kept = self._kept[number] = self._before(scope)
        return kept

    def _first(self, scopes: Iterable[CapKey]) -> str:
        for scope in scopes:
            if self._fetched(scope) >= scope.most:
                return f"{scope.name}: {scope.most} of {scope.scope}"
        return ""


def cap_named(why: str) -> str:
    """The cap in a refusal's words."""
    return why.partition(": ")[0]
