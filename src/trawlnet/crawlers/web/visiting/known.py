"""The page index as visits need it: earlier captures of a URL, and near duplicates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from trawlnet.captures.blobs import read_blob
from trawlnet.captures.page import KnownPage


class KnownPages(Protocol):
    def get(self, url: str) -> KnownPage | None:
        """The entry of a URL from an earlier visit."""

    def near(self, simhash: int, within: int, besides: str) -> bool:
        """Whether a page with nearly this fingerprint was captured at another URL."""


class NoPageIndex:
    """For a crawl without an index, which visits each page once."""

    def get(self, url: str) -> KnownPage | None:
        return None

    def near(self, simhash: int, within: int, besides: str) -> bool:
        return False


def stored_bodies(workspace: Path) -> Callable[[KnownPage], Awaitable[bool]]:
    """Whether the stored body of a page is intact on this disk; true if none was stored."""

    def is_whole(page: KnownPage) -> bool:
        try:
            read_blob(workspace / page.stored_path)
        except (OSError, ValueError):
            return False
        return True

    async def holds(page: KnownPage) -> bool:
        return not page.stored_path or await asyncio.to_thread(is_whole, page)

    return holds


async def assume_held(page: KnownPage) -> bool:
    """For bodies on other machines, which are not checked."""
    return True
