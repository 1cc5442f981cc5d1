"""Trouble that a person can mend: what is wrong, and what to do about it."""

from __future__ import annotations


class Hinted(Exception):
    """The base of what ends a run with a line of its own, and with a hint below that."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnknownFormat(Hinted):
    """What a newer version of trawlnet has written: it is not read, and stays as it is."""

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})"
