"""Which ids come to be missed, and which no longer are, by what was settled; and their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trawlnet.crawlers.ids.marks import Miss, mark_of
from trawlnet.crawlers.ids.words import Entry, Mark
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.store.spans import Span


@dataclass(slots=True)
class Changes:
    came: dict[int, Miss] = field(default_factory=dict)
    went: set[int] = field(default_factory=set)


def missed_changes(misses: Mapping[int, Miss], entries: Sequence[tuple[Receipt, Entry]]) -> Changes:
    """Against what is missed now; later entries have the last word."""
    changes = Changes()
    for receipt, entry in entries:
        if entry.mark is Mark.MISSED:
            for number in range(entry.start, entry.end):
                rounds = misses[number].rounds + 1 if number in misses else 0
                attempt = receipt.task.payload.ask.attempt
                changes.came[number] = Miss(rounds, receipt.at, attempt, receipt.detail)
                changes.went.discard(number)
        else:
            for number in _within(entry, misses, changes.came):
                changes.came.pop(number, None)
                changes.went.add(number)
    return changes


def _within(entry: Entry, *missed: Mapping[int, Miss]) -> list[int]:
    if entry.end - entry.start == 1:
        return [entry.start] if any(entry.start in some for some in missed) else []
    return [n for some in missed for n in some if entry.start <= n < entry.end]


def failure_of(span: Span) -> Reason | None:
    match mark_of(span.word):
        case Mark.MISSED:
            return Reason.HTTP_ERROR
        case Mark.HOLE:
            return Reason.NOT_FOUND
        case Mark.EMBARGOED:
            return Reason.EMBARGOED
        case _:
            return None


def put_back_for(reason: Reason | None) -> Reason:
    """What a retry without a reason means: withheld ids are asked for again by themselves, and
    holes are answers."""
    return Reason.HTTP_ERROR if reason is None else reason
