"""Trouble with what a crawler was told, which its user can mend."""

from __future__ import annotations


class NotReady(Exception):
    """The config is well formed, but a crawl cannot start with it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint  # What to type.


class Unanswered(Exception):
    """A server that everything else depends on does not answer."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
