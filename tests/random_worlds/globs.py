"""Which collections a config wants: a law of its own, for judges."""

from __future__ import annotations

from collections.abc import Sequence


def fits_any(name: str, globs: Sequence[str]) -> bool:
    return any(_fits(name, glob) for glob in globs)


def _fits(name: str, glob: str) -> bool:
    """A star stands for any characters; everything else for itself."""
    head, star, rest = glob.partition("*")
    if not star or not name.startswith(head):
        return name == glob
    return any(_fits(name[end:], rest) for end in range(len(head), len(name) + 1))
