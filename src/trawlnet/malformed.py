"""The one error of this room: bytes or text that are not what they claim to be."""

from __future__ import annotations


class Malformed(ValueError):
    """Says in one line what was expected and what was found, without quoting much of the input."""
