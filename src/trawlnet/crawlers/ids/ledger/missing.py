"""Missed ids: which ids become missed or are no longer, from ledger entries; and their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.crawlers.ids.ledger.askers import PendingRequest
from trawlnet.crawlers.ids.ledger.span_codec import Miss, mark_of
from trawlnet.crawlers.ids.model import LedgerEntry, LedgerMark
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.stores.spans import Span


@dataclass(slots=True)
class MissChanges:
    came: dict[int, Miss] = field(default_factory=dict)
    went: set[int] = field(default_factory=set)


def missed_changes(
    misses: Mapping[int, Miss], entries: Sequence[tuple[Receipt[Any], LedgerEntry]]
) -> MissChanges:
    """The changes to the missed ids; later entries override earlier ones."""
    changes = MissChanges()
    for receipt, entry in entries:
        if entry.mark is LedgerMark.MISSED:
            for number in range(entry.start, entry.end):
                rounds = misses[number].rounds + 1 if number in misses else 0
                attempt = PendingRequest.of(receipt.task.payload).ask.attempt
                reason = str(receipt.reason)
                changes.came[number] = Miss(rounds, receipt.at, attempt, receipt.detail, reason)
                changes.went.discard(number)
        else:
            for number in _within(entry, misses, changes.came):
                changes.came.pop(number, None)
                changes.went.add(number)
    return changes


def _within(entry: LedgerEntry, *missed: Mapping[int, Miss]) -> list[int]:
    if entry.end - entry.start == 1:
        return [entry.start] if any(entry.start in some for some in missed) else []
    return [n for some in missed for n in some if entry.start <= n < entry.end]


def missed_for(miss: Miss) -> Reason:
    """The reason of a miss: unreadable answers, or no answers."""
    return Reason.PARSE_ERROR if miss.reason == Reason.PARSE_ERROR else Reason.HTTP_ERROR


def failures_in(
    span: Span, misses: Mapping[int, Miss], reason: Reason | None
) -> Iterator[tuple[int, Reason]]:
    """The ids of a span that failed for this reason, or for any."""
    word = _failure_of(span)
    if mark_of(span.word) is LedgerMark.MISSED:
        for number in range(span.start, span.end):
            one = missed_for(misses.get(number, Miss()))
            if reason in (None, one):
                yield number, one
    elif word is not None and reason in (None, word):
        yield from ((number, word) for number in range(span.start, span.end))


def put_back(span: Span, misses: Mapping[int, Miss], reason: Reason | None) -> list[Span]:
    """The spans that a retry reopens. Without a reason only missed ids: withheld ids are requested
    again anyway, and holes are answers."""
    mark = mark_of(span.word)
    if mark is not LedgerMark.MISSED:
        return [span] if reason is not None and _failure_of(span) is reason else []
    return [Span(n, n + 1, span.word) for n, _ in failures_in(span, misses, reason)]


def _failure_of(span: Span) -> Reason | None:
    match mark_of(span.word):
        case LedgerMark.HOLE:
            return Reason.NOT_FOUND
        case LedgerMark.EMBARGOED:
            return Reason.EMBARGOED
        case _:
            return None
