"""The format of marks as words of spans, and of the notes about missed ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trawlnet.crawlers.ids.model import LedgerEntry, LedgerMark
from trawlnet.stores.spans import Span

DONE = str(LedgerMark.DONE)
_LONGEST = 80  # Characters of a reason.


@dataclass(frozen=True, slots=True)
class Miss:
    """A missed id: errors used up its attempts."""

    rounds: int = 0  # Second chances so far.
    at: float = 0.0
    attempt: int = 0
    detail: str = ""
    reason: str = ""  # Of the last try; empty in ledgers of older versions.

    def packed(self) -> list[Any]:
        return [self.rounds, self.at, self.attempt, self.detail, self.reason]


def word_of(mark: LedgerMark, reason: str) -> str:
    # All done ids have the same word, so that neighbours merge into one span.
    return str(mark) if mark is LedgerMark.DONE or not reason else f"{mark} {reason[:_LONGEST]}"


def mark_of(word: str) -> LedgerMark:
    return LedgerMark(word.partition(" ")[0])


def reason_of(word: str) -> str:
    return word.partition(" ")[2]


def span_of(entry: LedgerEntry) -> Span:
    return Span(entry.start, entry.end, word_of(entry.mark, entry.reason))
