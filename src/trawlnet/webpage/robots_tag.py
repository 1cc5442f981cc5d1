"""What a page says to robots, in a meta tag or an X-Robots-Tag header."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class RobotsWords(NamedTuple):
    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: RobotsWords) -> RobotsWords:
        return RobotsWords(self.noindex or other.noindex, self.nofollow or other.nofollow)


NO_WORDS = RobotsWords()


def words_for(content: str) -> RobotsWords:
    """The words of a meta tag: `noindex, nofollow`, in any case and order."""
    words = {word.strip() for word in content[:_MAX].lower().split(",")}
    none = "none" in words
    return RobotsWords(none or "noindex" in words, none or "nofollow" in words)


def robots_words(headers: Iterable[str], agent: str) -> RobotsWords:
    """The words of X-Robots-Tag headers that are meant for this product token.

    `other: noindex, nofollow` is for somebody else, to the end of its header.
    """
    said = NO_WORDS
    for header in headers:
        mine = True
        for word in header[:_MAX].lower().split(","):
            name, colon, rest = word.partition(":")
            if colon and name.strip() not in _WITH_VALUES:
                mine = name.strip() in ("robots", "*", agent.lower())
                word = rest
            if mine:
                said |= words_for(word)
    return said


_MAX = 2000  # Characters.
_WITH_VALUES = frozenset(
    ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
)
