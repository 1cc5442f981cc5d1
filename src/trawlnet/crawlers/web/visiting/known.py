"""What earlier visits have brought, for whoever visits a page or reads about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from trawlnet.captures.blobs import read_blob
from trawlnet.captures.page import KnownPage


class KnownPages(Protocol):
    def get(self, url: str) -> KnownPage | None:
        """What is known of a URL from an earlier visit."""

    def near(self, simhash: int, within: int, besides: str) -> bool:
        """Whether a page with nearly this fingerprint was captured at another URL."""


class NoPageIndex:
    """For a crawl that visits each page once, and has no index where it could look."""

    def get(self, url: str) -> KnownPage | None:
        return None

    def near(self, simhash: int, within: int, besides: str) -> bool:
        return False


def stored_bodies(workspace: Path) -> Callable[[KnownPage], Awaitable[bool]]:
    """Whether the body of a page is on this disk, whole; one that was never stored counts."""

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
    """Where bodies lie elsewhere, and nobody looks."""
    return True
