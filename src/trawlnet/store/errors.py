"""What can go wrong with the memory of a crawl, each with what to do about it."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot go on; nothing that it had confirmed is lost."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreUnreachable(StoreError):
    """The server that holds the store does not answer."""


class Unstorable(StoreError):
    """One task holds something that no store can keep; nothing of its batch was written."""
