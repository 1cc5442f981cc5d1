"""Caps on the pages of one scope, such as a repository or a calendar.

Successes count, and each page once: the counts come from the page index, in which a page that was
fetched twice because of a crash is still one page. So caps need no durable state of their own.
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
_UNDER_WAY = 1024  # Pages whose scopes are cached: each is looked up three times.


class PageCaps(Protocol):
    """The caps of a crawl, in one process or in a fleet."""

    def full(self, url: str, page_type: str) -> str:
        """The cap that is known to be reached for a page; empty if there may be room."""

    async def take(self, task: Task, url: str, page_type: str) -> str:
        """Reserve a place; returns the cap that forbids it, or empty."""

    def leave(self, url: str, page_type: str, *, fetched: bool) -> None:
        """The page that reserved a place has ended."""


class Caps:
    """The caps of one process."""

    def __init__(self, scopes: Scopes, before: Callable[[CapKey], int] = lambda scope: 0) -> None:
        """`before` returns the number of pages of a scope in the index: of earlier runs, and of a
        process that runs beside this one."""
        self._scopes = lru_cache(maxsize=_UNDER_WAY)(scopes)
        self._before = before
        # By hash: there may be as many scopes as pages, and their names are long.
        self._counts: dict[int, int] = {}
        self._under_way: Counter[int] = Counter()
        self._changed = asyncio.Event()

    def full(self, url: str, page_type: str) -> str:
        return self._first(self._scopes(url, page_type))

    async def take(self, task: Task, url: str, page_type: str) -> str:
        """Wait while the last places are reserved by pages that may still fail."""
        scopes = self._scopes(url, page_type)
        for scope in scopes:
            # Only before a fetch; the many links are judged by what is known.
            self._counts[hash(scope)] = max(self._fetched(scope), self._before(scope))
        while any(self._taken(scope) >= scope.most for scope in scopes):
            if why := self._first(scopes):
                return why
            self._changed.clear()
            await self._changed.wait()
        for scope in scopes:
            self._under_way[hash(scope)] += 1
        return ""

    def leave(self, url: str, page_type: str, *, fetched: bool) -> None:
        for scope in self._scopes(url, page_type):
            number = hash(scope)
            self._under_way[number] -= 1
            if not self._under_way[number]:
                del self._under_way[number]
            if fetched:
                self._counts[number] = self._fetched(scope) + 1
        self._changed.set()

    def _taken(self, scope: CapKey) -> int:
        return self._fetched(scope) + self._under_way[hash(scope)]

    def _fetched(self, scope: CapKey) -> int:
        """Read when a scope is first met, before this run can have a page of it."""
        number = hash(scope)
        fetched = self._counts.get(number)
        if fetched is None:
            fetched = self._counts[number] = self._before(scope)
        return fetched

    def _first(self, scopes: Iterable[CapKey]) -> str:
        for scope in scopes:
            if self._fetched(scope) >= scope.most:
                return f"{scope.name}: {scope.most} of {scope.scope}"
        return ""


def cap_named(why: str) -> str:
    """The name of the cap in a refusal."""
    return why.partition(": ")[0]
