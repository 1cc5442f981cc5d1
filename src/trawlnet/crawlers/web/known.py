"""What earlier visits have brought, for whoever visits a page or reads about it."""

from __future__ import annotations

from typing import Protocol

from trawlnet.sink.page import Page


class KnownPages(Protocol):
    def get(self, url: str) -> Page | None:
        """What is known of a URL from an earlier visit."""

    def near(self, simhash: int, within: int, besides: str) -> bool:
        """Whether a page with nearly this fingerprint was captured at another URL."""


class NoPages:
    """For a crawl that visits each page once, and has no index where it could look."""

    def get(self, url: str) -> Page | None:
        return None

    def near(self, simhash: int, within: int, besides: str) -> bool:
        return False
